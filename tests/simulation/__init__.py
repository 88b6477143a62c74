"""The gateway from broker to SNMP store in one thread, under a virtual clock, with seeded faults.

The parts under test are the real ones; what stands around them (brokers, networks, disks, clocks, managed
applications) is simulated, and knows what is true. Every choice comes from one seed, so a run can be
repeated: ``python -m tests.simulation SEED --trace``. What must hold is in `feed_invariants`,
`north_invariants` and `log`, and nowhere else.
"""
