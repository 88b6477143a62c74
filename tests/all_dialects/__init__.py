"""All dialects at once: what each kind of peer tells stands side by side in one gateway."""
