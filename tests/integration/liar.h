/* SPDX-License-Identifier: MIT */
/*
 * liar.h - a lessee's daemon that is none, with a QP of its own: it comes by its link and keys as
 * an honest one would, and then writes and reads where and when it likes.
 *
 * One liar is one peer to the owner's daemon (a control connection) with one QP at a time. An
 * access that the owner's device refuses breaks that QP; liar_link makes the next.
 */
#ifndef RDMAD_TEST_LIAR_H
#define RDMAD_TEST_LIAR_H

#include "daemon/fabric/verbs/wire/blob.h"
#include "tests/integration/false_peer.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>

#define LIAR_BUFFER (256u << 10)

struct liar {
    struct false_peer peer;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *buffer; /* LIAR_BUFFER bytes */
    union ibv_gid gid;
    uint8_t gid_index;
    uint64_t refs;   /* attaches and links asked for */
    uint64_t number; /* of the link, at the owner */

    /* The flood. */
    pthread_t thread;
    uint64_t address, length;
    uint32_t rkey;
    bool says_stopped; /* answers REVOKED at once, and goes on */
    uint64_t owner_ref;
    atomic_bool stop;
    atomic_uint_fast64_t written; /* bytes of writes that the device acknowledged */
    atomic_int refused;           /* enum ibv_wc_status of what ended the flood; 0: nothing did */
};

struct liar_lease {
    uint64_t owner_ref, length;
    struct verbs_key key;
};

void liar_open(struct liar *l, const char *device, const char *listen);
void liar_close(struct liar *l);
/* A new QP, connected. The owner's daemon must hold an attachment of ours already. */
void liar_link(struct liar *l);
/* attach, and a link if there is none yet, and the key for it. */
void liar_attach(struct liar *l, const char *uri, struct liar_lease *out);

/* One access of up to LIAR_BUFFER bytes; what the completion says. Writes are of byte value. */
enum ibv_wc_status liar_write(struct liar *l, uint64_t address, uint32_t rkey, size_t length,
                              uint8_t value);
enum ibv_wc_status liar_read(struct liar *l, uint64_t address, uint32_t rkey, size_t length);

/* Writes all over the lease at full rate, on a thread, until the device refuses or stop. */
void liar_start(struct liar *l, const struct liar_lease *lease, bool says_stopped);
void liar_stop(struct liar *l);

#endif
