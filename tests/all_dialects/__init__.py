"""All dialects at once: the objects and events of each kind of peer stand side by side in one gateway."""
