"""What a gateway says of a broker over kills, held against a ledger that shares no code with it."""
