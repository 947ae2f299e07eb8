/* SPDX-License-Identifier: MIT */
/*
 * door.h - messages of the weaker kinds: datagrams by UD, unacknowledged ones by UC. A target's
 * side is door.c, a link's is gate.c; nothing of it is made before the first such message.
 *
 * The way to an open door: the link makes its QP and knocks, by a message of its own kind on the
 * first lane; the target makes a door and writes where it is into the page that the link reads
 * anyway (its counter is there); the link reads it and sends. A door belongs to one connection and
 * goes with it.
 *
 * Of a datagram the device says from which QP of whose network it came, which others could claim
 * too. So a door has a token, which only its own peer can have read, and each datagram shows it.
 */
#ifndef RDMAD_FABRIC_VERBS_DOOR_H
#define RDMAD_FABRIC_VERBS_DOOR_H

#include "daemon/fabric/verbs/instance/instance.h"

#define DOOR_TOKEN 8u       /* bytes, before those of a datagram */
#define DOOR_REFUSED 1u     /* as a door's QP number: there is none, and there will not be */
#define KNOCK_WORD 0x646f6f /* immediate data of a knock */

/* A knock, little-endian. */
struct knock {
    uint32_t kind, qp_num, psn, zero;
};

/* A target's page, little-endian. */
struct door_place {
    uint32_t qp_num; /* 0: not made yet */
    uint32_t word;   /* of UD the Q_Key, of UC the first packet's number here */
    uint64_t token;
};
/* The word that answers a message, for who asked. A device may read some of its bytes before a
 * change and some after, which the seal shows. */
struct inbox_answer {
    uint64_t word, seal; /* seal: of the word and the message's number */
};
struct inbox_page {
    uint64_t consumed;
    struct door_place door[DOORS];
    struct inbox_answer answer[INBOX_RECEIVES]; /* of the last, by their numbers */
};

static inline uint64_t answer_seal(uint64_t word, uint64_t number) {
    return ~(word ^ (number + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

static inline enum door_kind door_of_service(uint8_t service) {
    return service == RDMAD_CHANNEL_DATAGRAM ? DOOR_DATAGRAM : DOOR_UNACKED;
}

/* What both sides need: a QP of that kind in INIT, and from there to RTS. path is a QP that is
 * connected to the same port there. */
int door_qp_make(struct verbs *v, struct queue *q, enum door_kind kind, const struct qp_spec *spec,
                 struct error *err);
int door_qp_open(struct queue *q, enum door_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn);
int door_path(const struct queue *path, struct ibv_qp_attr *out); /* AV and PATH_MTU of it */

/* ---- door.c: a target's side --------------------------------------------------------------- */

/* false: no honest peer says that. */
bool door_knocked(struct target *t, const void *bytes, size_t size);
void doors_close(struct target *t); /* its QPs and registrations */
void doors_free(struct target *t);

#endif
