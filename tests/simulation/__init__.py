"""The gateway from broker to SNMP store in one thread, under a virtual clock, with seeded faults.

The parts under test are the real ones. Their surroundings (brokers, networks, disks, clocks, managed
applications) are simulated and keep the true state. Every choice comes from one seed, so a run can be
repeated: ``python -m tests.simulation SEED --trace``. The invariants are defined in `feed_invariants`,
`northbound_invariants` and `log`, and nowhere else.
"""
