"""Notifications: their octets, who gets them, what becomes of them on the way, and real receivers of them."""
