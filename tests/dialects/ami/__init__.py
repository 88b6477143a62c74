"""AMI: lines to instructions and back."""
