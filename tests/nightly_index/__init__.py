"""A package index on loopback that serves torch nightlies, small made-up ones and real ones.

`IndexServer` (server.py) serves what `Shelf.add` puts up; `faults.py` says what can go wrong with
it. Wheels come from `wheels.py` (a few KB, a stand-in torch whose behaviour is scripted) and from
`nightlies.py` (another torch's files under another version).
"""
