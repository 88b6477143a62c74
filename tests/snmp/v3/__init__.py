"""Version 3: keys, messages, the security model, and real managers."""
