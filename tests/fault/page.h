/* SPDX-License-Identifier: MIT */
/*
 * page.h - how a test steers rdmad_fault: a page that both have mapped.
 *
 * rdmad_fault is the daemon, of the same objects, but what our own code asks of libc is counted by
 * kind, and the call that brings countdown to 0 fails. A test counts what it reaches, then has one
 * call after the other fail in a daemon that runs on: thousands of faults in minutes.
 */
#ifndef RDMAD_TEST_FAULT_PAGE_H
#define RDMAD_TEST_FAULT_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

/* In the environment of rdmad_fault: the page's file. Without it nothing ever fails. */
#define FAULT_PAGE "RDMAD_FAULT_PAGE"

enum fault_kind {
    FAULT_MEMORY,     /* malloc and its like */
    FAULT_EVENTS,     /* libevent's memory */
    FAULT_JSON,       /* jansson's */
    FAULT_DESCRIPTOR, /* what makes one: EMFILE */
    FAULT_MAP,        /* mmap, mlock, ftruncate: ENOMEM */
    FAULT_THREAD,     /* threads and processes: EAGAIN */
    FAULT_IO,         /* what is done with one: ENOBUFS, ENOMEM, EIO */
    FAULT_FABRIC,     /* what the engine asks of a fabric, and what that tells (fabric.c) */
    FAULT_VERBS,      /* what the verbs fabric asks of a device (verbs.c) */
    FAULT_KINDS
};

enum { FAULT_FRAMES = 8 };

struct fault_page {
    atomic_uint kind;
    atomic_long countdown; /* <= 0: nothing fails */
    atomic_ulong counts[FAULT_KINDS];
    /* Of what failed last; read when failed says so. */
    atomic_uint failed;
    char call[24];
    unsigned frames;
    uint64_t frame[FAULT_FRAMES]; /* offsets in rdmad_fault, for addr2line */
};

#endif
