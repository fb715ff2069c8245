"""Measuring a server from outside: requests sent, streams timed, counters read before and after.

``address`` says where, ``client`` speaks HTTP, ``dialects`` knows how servers differ, ``survey``
finds out which one it is, ``answers`` turns a stream into times and tokens, ``load`` decides when
requests are sent, ``counters`` reads metrics pages, and ``window`` puts them together. No torch.
"""
