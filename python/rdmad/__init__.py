# SPDX-License-Identifier: MIT
"""RDMA through rdmad, the daemon that owns the NIC.

    import numpy, rdmad

    with rdmad.Session() as s, s.attach(uri) as there:
        array = s.pool(1 << 20).array(1024, "f8")
        there.read(0, array)

Memory. A transfer names memory of a pool on this side and memory of a lease on the other. Pool.alloc hands out pieces
of a pool as memoryviews, Pool.array as NumPy arrays; slices and arrays over them name their part of it, and nothing
is copied. A piece goes back to its pool when no view of it is left, and never while something reads or writes it.

Errors are exceptions, all of them rdmad.Error: a class for each RDMAD_E_*, with the library's sentence.

Threads. All may be used by any number of threads, and calls let other threads of Python run meanwhile; but what
rdmad.aio makes belongs to its event loop. Close an object when no other thread is in a call with it: close waits for
those for ten seconds, and then raises BusyError.

The library's own manual is its header, rdmad.h; names here are those there.
"""
import builtins

from ._base import Error
from ._channel import Channel, ChannelAudit, Gift, Incoming, Message, Service
from ._lease import Audit, Lease, Notification
from ._library import lib as _lib, text as _text
from ._made import *  # noqa: F403
from ._made import __all__ as _names
from ._pool import BufferLock, Pool
from ._session import Event, Info, Name, Session


def version() -> str:
    """Of the library, "0.1.0"."""
    return _text(_lib.rdmad_version())


__all__ = ["Audit", "BufferLock", "Channel", "ChannelAudit", "Error", "Event", "Gift", "Incoming", "Info", "Lease",
           "Message", "Name", "Notification", "Pool", "Service", "Session", "version"]
__all__ += [name for name in _names if not hasattr(builtins, name)]  # TypeError is rdmad.TypeError alone
