/* SPDX-License-Identifier: MIT */
/*
 * fabric_side.h - one side of a connection over libfabric's tcp provider: just enough to write and
 * read the other side's memory.
 */
#ifndef RDMAD_BENCH_FABRIC_SIDE_H
#define RDMAD_BENCH_FABRIC_SIDE_H

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <stddef.h>
#include <stdint.h>

struct fabric_side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_mr *mr;
    char *memory; /* of the size given, registered; the other side's may be read and written */
    size_t size;
    uint64_t far_address, far_key;
};

/* Everything here ends the process with a message when it fails. */
void fabric_listen(struct fabric_side *s, size_t size, struct sockaddr_in *bound);
void fabric_accept(struct fabric_side *s);
void fabric_connect(struct fabric_side *s, size_t size, const struct sockaddr_in *to);

/* Post one operation between our memory at offset and the start of theirs; wait while the queue is
 * full. */
void fabric_write(struct fabric_side *s, size_t offset, size_t bytes);
void fabric_read(struct fabric_side *s, size_t offset, size_t bytes);
unsigned fabric_reap(struct fabric_side *s); /* completions since the last call; makes progress */
int fabric_closed(struct fabric_side *s);    /* whether the other side has shut down */
void fabric_shutdown(struct fabric_side *s);

#endif
