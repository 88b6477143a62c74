"""The cost of watching a RabbitMQ: the gateway's source beside listings, a scrape and the management page.

Three brokers of the benchmark's own, with no queue, with some and with many, are watched by one side at a
time. The results are the processor time of each broker's node in that time, and the age of the side's values
at the end.
"""
