"""QMF before AM2: the management protocol of Apache Qpid from November 2007 to mid 2008, AM01 and AM1.

The codec of all its revisions. Messages with the same meaning in AM2 use the same class (`qmf.messages`); an
object id of 64 bits is an `ObjectId` whose prefix is 0. No I/O of any kind.
"""
