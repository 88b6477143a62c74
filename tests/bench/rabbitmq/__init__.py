"""What watching costs a RabbitMQ: the gateway's source beside listings, a scrape and the management page.

Three brokers of the benchmark's own, with no queue, with some and with many, are watched by one side at a
time. What counts is the processor time of each broker's node meanwhile, and how old the values are that the
side knows at the end.
"""
