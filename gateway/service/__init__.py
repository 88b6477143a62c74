"""The composition root: processes, and what each of them is made of. Nothing imports it but commands."""
