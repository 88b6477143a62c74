"""What a report says, and in which forms: questions as functions of DataFrames, answers as tables and a page.

The questions (`queues`, `connections`, `happenings`, `sources`, `quality`) return DataFrames and may be asked
anywhere; `report` asks them all of one period, `terminal` and `page` show the answers.
"""
