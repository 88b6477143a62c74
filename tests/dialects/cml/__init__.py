"""The codec of CML, held against what its documents say and what OpenAMQ was recorded to send."""
