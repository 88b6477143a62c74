"""The output of a gateway for a broker over kills, compared with a ledger that shares no code with it."""
