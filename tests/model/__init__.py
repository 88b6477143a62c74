"""The model: what stands for itself."""
