/* SPDX-License-Identifier: MIT */
/*
 * requests_rig.h - the real handlers and tables of sessions in a world that a fuzzer turns by hand:
 * programs without sockets, registration threads that work when they are told to, a data plane
 * (unit/fake_plane.h) and other daemons that answer when they are told to.
 *
 * Whatever a program is told is looked at here: each request is answered once, with a body of its
 * type's size.
 */
#ifndef RDMAD_TESTS_FUZZ_REQUESTS_RIG_H
#define RDMAD_TESTS_FUZZ_REQUESTS_RIG_H

#include "daemon/base/clock.h"
#include "daemon/state/channel.h"
#include "daemon/state/handle.h"
#include "daemon/state/session_end.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/requests_moves.h"
#include "tests/unit/fake_plane.h"
#include <rdmad/wire.h>

#define PROGRAMS 4u
#define PORT 7471u
#define OTHER_PORT 7472u /* of another daemon */

/* ---- what is told ---------------------------------------------------------------------------- */

struct told {
    enum thing kind;
    uint64_t session; /* that was told, */
    uint64_t number;
    uint16_t size; /* and what a request can say of it */
    uint8_t bytes[RDMAD_URI_MAX + 1];
};
void tell(enum thing kind, uint64_t session, uint64_t number, const void *bytes, size_t size);
/* The nth from the last of that kind; NULL: there is none. */
const struct told *told_nth(enum thing kind, unsigned nth);
bool was_told(enum thing kind, uint64_t session, uint64_t number);
/* The same to anybody, of what a number is not enough for. */
bool was_told_bytes(enum thing kind, uint64_t number, const void *bytes, size_t size);
void told_forget(void);

/* Memory of a program's. */
struct memory {
    int fd;
    bool ours; /* of a ring: the daemon writes it */
    bool loose;
    size_t bytes;
};
struct memory *memory_nth(unsigned nth);
void memory_keep(int fd, bool ours, bool loose); /* a copy of fd */
void memories_forget(void);

/* ---- programs -------------------------------------------------------------------------------- */

#define WAITING_MAX 256u

struct asked { /* a request that was not answered yet */
    uint16_t type;
    uint32_t seq;
    size_t size;
    union {
        uint64_t first; /* of most bodies: the number of what they are about */
        uint8_t bytes[RDMAD_MSG_MAX];
    } body;
    uint64_t lease_owner; /* session; of requests about a lease, when it was sent */
};

struct conn_events;
struct program {
    bool connected, lags, loses_fds;
    unsigned waits; /* calls of conn_wait that are not taken back */
    uint64_t rests_until_ns;
    uid_t uid;
    struct session *session; /* NULL: turned away */
    unsigned services;       /* that it has had */
    const struct conn_events *events;
    struct asked *waiting[WAITING_MAX];
    unsigned nwaiting;
};
extern struct program programs[PROGRAMS];

void program_connect(unsigned who);
void program_find_no_place(unsigned who);
void program_go(struct program *p, bool lost);
void program_read_again(struct program *p);
/* What is told of connections in a later turn; false: nothing. */
bool programs_turn(void);
/* Whether the daemon reads what it sends. */
bool program_is_heard(const struct program *p);
/* size: of the whole packet. */
void program_send(struct program *p, const void *packet, size_t size, int *fds, unsigned nfds);

/* ---- other daemons --------------------------------------------------------------------------- */

void peers_up(void);
void peers_down(void); /* nothing may be under way */
/* The nth question that waits is answered; false: there is none. */
bool peers_answer(unsigned nth, unsigned how);
/* Something becomes of the nth of what they gave us. */
void peers_event(unsigned nth, unsigned how);
/* The way of an end that was accepted is theirs to make. */
void peers_accept(struct channel *ch);

/* Programs of theirs come to the nth of all leases and services here, and leave. */
void guests_up(void);
void guests_down(void);
void guests_come(unsigned nth, bool for_memory);
void guests_leave(unsigned nth, bool lost);
bool guests_answer(void); /* that they use a lease no more; false: none is asked */

/* ---- the world ------------------------------------------------------------------------------- */

extern struct state st;
extern uint64_t world_now_ns;

void world_up(unsigned how); /* REQUESTS_* */
void world_down(void);       /* everything must be back */
void world_next_life(void);
void world_pass(uint64_t ns);
bool work_step(void); /* of a registration thread; false: there is nothing to do */
/* The data plane answers the nth of what it could answer next (fake_next); false: there is nothing.
 * refuse: it cannot, if it is something that can fail. */
bool plane_answer(unsigned nth, bool refuse);
void world_settle(void); /* all that is under way is done, as far as it needs nobody */

/* ---- what must be so (requests_check.c) ------------------------------------------------------ */

/* Numbers of leases are given out anew. */
void check_forget(void);
void check_asked(struct asked *a);
/* Before it is forgotten: it was answered, status and body as they were said. */
void check_answer(const struct program *p, const struct asked *a, int status, const void *body);
size_t check_body_size(uint16_t type);  /* of a request */
size_t check_reply_size(uint16_t type); /* of a good answer */
unsigned check_reply_fds(uint16_t type);
void check_tables(void);
/* All is done that can be done without another move of a program. */
void check_nobody_waits(void);

#endif
