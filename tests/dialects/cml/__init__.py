"""Tests of CML, compared with its documents and with recordings of OpenAMQ."""
