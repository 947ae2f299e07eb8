/* SPDX-License-Identifier: MIT */
/*
 * sim_world.h - sim's inner words: sim.c has the world, its links and the way of an op,
 * sim_window.c the windows, sim_message.c the SENDs.
 */
#ifndef RDMAD_TESTS_SIM_WORLD_H
#define RDMAD_TESTS_SIM_WORLD_H

#include "daemon/base/slots.h"
#include "tests/support/sim.h"

enum stage { POSTED, REQUESTED, ANSWERED };

struct instance {
    struct fabric base;
    struct list node;
    const struct fabric_env *env;
    uint64_t id;
    struct list links, offers;
    struct slots windows;
    struct list changing; /* windows that open or close later */
    struct list inbox;    /* SENDs that have come and are not passed on yet */
};

struct link {
    struct fabric_link base;
    struct list node; /* in its instance's links */
    void *cookie;
    uint64_t id;                /* what its hello says */
    struct instance *from, *to; /* to: NULL when refused, gone, or not opened yet */
    uint64_t peer;              /* who we are to the target */
    uint64_t up_ns;             /* CLOCK_NEVER before it is opened */
    bool up, broken, lost_told;
    struct list ops;          /* of struct sim_op */
    uint32_t inflight, sends; /* of all ops; of them SENDs */
};

struct window {
    struct fabric_window base;
    struct fabric_window_spec spec;
    uint64_t handle;
    struct list changing;
    bool closing;
    int reason;      /* of closing */
    uint64_t due_ns; /* while it is in changing */
};

struct sim_op {
    struct list node;
    struct fabric_op *fop;
    struct link *link;
    enum stage stage;
    uint64_t due_ns; /* CLOCK_NEVER: lost */
    uint64_t moved, handle;
    uint64_t value;                /* CAS, FADD: what was there; SEND: the answer */
    struct message *message;       /* a SEND that asks, while it lies in the inbox */
    uint8_t head[FABRIC_HEAD_MAX]; /* SEND */
    int answer;
    int cancel; /* lazy: the status to come back with at cancel_ns */
    uint64_t cancel_ns;
};

/* sim.c */
bool sim_chance(uint32_t ppm);
uint64_t sim_later(void); /* a moment that the script allows for one step */
void sim_answer(struct sim_op *op, int status);
/* Every op in this world that is under way through the window ends with reason. */
void sim_cut(const struct instance *in, uint64_t handle, int reason);

/* sim_message.c */
/* Whether the script and the ops posted before let this one take effect now. */
bool sim_may_take_effect(const struct sim_op *op);
void sim_send_arrives(struct sim_op *op); /* and is answered */
void sim_send_left(struct sim_op *op);    /* of a weaker kind: it is DONE, and may be lost */
/* Its initiator gives it up under way; whether it arrives all the same. The second does it for all
 * of a link, in order. */
bool sim_send_cut(struct sim_op *op);
void sim_sends_cut(struct link *link);
void sim_send_forget(struct sim_op *op); /* it ends: nobody hears its answer */
void sim_abandon(struct fabric_landing *landing);
void sim_inbox_clear(struct instance *in, uint64_t peer); /* 0: whoever sent it */
unsigned sim_inbox_read(struct instance *in);
uint64_t sim_inbox_due_ns(const struct instance *in);

/* sim_window.c */
int sim_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                    struct fabric_window **out, struct fabric_blob *key, struct error *err);
void sim_window_extend(struct fabric_window *base, uint64_t deadline_ns);
bool sim_window_close(struct fabric_window *base, int reason);
int sim_window_check(const struct window *window, const struct sim_op *op);
void sim_window_atomic(const struct window *window, struct sim_op *op);
unsigned sim_windows_change(struct instance *in); /* what is due */
uint64_t sim_windows_due_ns(struct instance *in);

#endif
