/* SPDX-License-Identifier: MIT */
/*
 * channel.h - our ends of channels: what a session's SENDs and RECVs name.
 *
 *   NEW -> ADDING -> OPEN -> ENDING -> ENDED -> free
 *
 * NEW is charged and numbered; whoever makes the way to the other end (on this daemon:
 * channel_local.c; at a peer: peer/channel/chan.c) may take its time. ADDING: the data plane has
 * it, or is taking it up. OPEN: the session uses it. ENDING: the data plane ends its ops; when it
 * has let go, the other side hears of it, then the client. ENDED: sqes that name it are still
 * answered with why it ended, until the client closes it. What the session closes by itself is
 * freed without an event.
 *
 * If opening an end fails before it is OPEN, whoever opened it is told why, and the end is freed.
 *
 * An end that its program has closed while the other one is away is kept, PARTED, for that to hear
 * of it (channel_away.h).
 *
 * An end that is OPEN may lose its way and get another; then its *way* is not THERE
 * (channel_away.h).
 *
 * If the other ends of a session's channels are on this daemon, they send to the session's data
 * plane. So that is dropped only when they have ended (channels_end_others).
 */
#ifndef RDMAD_STATE_CHANNEL_H
#define RDMAD_STATE_CHANNEL_H

#include "daemon/state/late_event.h"
#include "daemon/state/service.h"
#include <rdmad/wire.h>

/* All sessions' together; limits are stricter. */
#define CHANNELS_TOTAL_MAX 1048576u

struct channel_ops { /* of who makes the way */
    /* The session closes or gives up while the end is NEW: forget it, for it is freed after this
     * call. */
    void (*cancel)(struct channel *ch, const struct error *why);
    /* The data plane has taken it up: it can be opened, and messages to it arrive. */
    void (*added)(struct channel *ch);
    /* Nothing of the session can reach the other end, or be reached, any more: forget it. */
    void (*let_go)(struct channel *ch);
    /* The same, but it has only lost its way. */
    void (*rested)(struct channel *ch);
    /* OPEN: asks the other end's daemon, elsewhere; the answer is keepalive_told (keepalive.h). */
    void (*ask_alive)(struct channel *ch);
};

struct channel_keepalive {            /* of keepalive.c */
    void (*drop)(struct channel *ch); /* it is freed next */
};

struct channel_away_ops {                /* of channel_away.c */
    void (*resumed)(struct channel *ch); /* the data plane has it, without a way */
    void (*there)(struct channel *ch);   /* its way is complete */
    bool (*part)(struct channel *ch); /* its program has closed it. True: not freed, see PARTED */
    void (*drop)(struct channel *ch); /* it is freed next */
};

enum channel_way { CHANNEL_THERE, CHANNEL_RESTING, CHANNEL_AWAY, CHANNEL_COMING };
enum channel_stage {
    CHANNEL_NEW,
    CHANNEL_ADDING,
    CHANNEL_OPEN,
    CHANNEL_ENDING,
    CHANNEL_ENDED,
    CHANNEL_PARTED
};

struct channel {
    struct session *session; /* held */
    uint64_t number;         /* unique on this daemon: what the other end's messages name */
    uint64_t handle;         /* the session's: what its sqes name */
    enum channel_stage stage;
    uint32_t asked, kind; /* enum rdmad_channel_kind: asked for, and what it came to be */
    bool accepted;        /* here; else it was connected from here */
    bool remote;
    const char *fabric;         /* that it goes over, or "local"; NULL: not known yet */
    bool added, ready;          /* both: OPEN */
    bool known;                 /* the client has its handle */
    bool closed;                /* the client does not want it any more */
    bool lingers;               /* ENDING: what it sent is delivered first */
    struct late_event late_end; /* ENDED */
    unsigned pending;           /* answers of the data plane under way */
    int reason;                 /* once ENDING */
    char text[RDMAD_TEXT_MAX + 1];
    char service[RDMAD_NAME_MAX + 1];
    uint32_t peer_uid; /* of the other end, as its daemon says */
    char peer_node[RDMAD_NAME_MAX + 1];
    bool peer_proven;                      /* peer_node: as struct incoming has it */
    char peer_address[RDMAD_NAME_MAX + 1]; /* "": on this daemon */
    uint64_t other;                        /* the other end's number; 0: not known yet */
    struct session *other_session;         /* on this daemon, from its opening until the end */
    struct list other_node;                /* in other_session->others */
    uint64_t max_datagram; /* bytes: by the link that it was opened on, of its kind if at all */
    uint64_t since_ns;
    struct plane_channel_stats stats;
    struct session_waiter opening, closing;
    struct channel_keepalive *keepalive; /* keepalive.h; NULL: its client wants none */
    bool given_up;                       /* it ends by that: for the other end, abruptly */

    /* channel_away.h */
    const struct channel_away_ops *away; /* NULL: its way was never gone */
    enum channel_way way;
    bool resumed; /* the session has brought it from an earlier life */
    bool moves;   /* it ends here, and goes on with the next daemon */
    bool has_key;
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];        /* what its programs can bring it back by */
    struct tree_node away_node;                  /* AWAY: in the state's */
    uint8_t away_place[RDMAD_CHANNEL_KEY_BYTES]; /* where there */
    struct timer away_bound, away_seek;
    uint64_t away_since_ns, away_pause_ns;
    uint32_t away_before_ms;    /* at earlier lives: counts for the bound, too */
    struct late_event late_way; /* its client hears whether it waits */
    char away_why[RDMAD_TEXT_MAX + 1];
    void (*seek)(struct channel *ch); /* AWAY: looks for the other end; NULL: is waited for */
    char host[256];                   /* connected: of the service's daemon, elsewhere */
    uint16_t port;

    const struct channel_ops *ops; /* NULL: nobody makes its way, yet or any more */
    void *record;                  /* of who makes the way */
    struct quota_charge charge;
};

/* Makes an end that is charged and numbered. opened: it is OPEN, or why not; then ch is freed. */
int channel_new(struct session *s, uint32_t kind, plane_done *opened, void *arg,
                struct channel **out, struct error *err);
/* The same with the number that the session's sqes have named it by. */
int channel_new_again(struct session *s, uint64_t handle, plane_done *opened, void *arg,
                      struct channel **out, struct error *err);
/* Gives up an end that is still NEW. */
void channel_fail(struct channel *ch, const struct error *why);
struct channel *channel_by_number(struct state *st, uint64_t number);
struct channel *channel_by_handle(struct session *s, uint64_t handle); /* one the client knows of */
/* What kind a channel comes to be over that fabric (plane/plane.h's number) if this kind is asked
 * for. */
uint32_t channel_kind_by(const struct state *st, uint32_t kind, unsigned fabric);
/* What went by this end; its worker goes on counting. */
struct plane_channel_stats channel_stats(const struct channel *ch);
/* Bytes of its largest message. It must be open. */
uint64_t channel_max_message(const struct channel *ch);

/* Gives it (or, if it is COMING, its new way) to the data plane, which reaches the other end by
 * lane, and is reached by the connections of peer_in; NULL and 0: the other end is on this daemon.
 */
void channel_add(struct channel *ch, struct plane_lane *lane, uint64_t peer_in);
/* The other end is there. */
void channel_connect(struct channel *ch, uint64_t other, struct session *other_session);
/* Its way is complete: it is OPEN as soon as it is added. */
void channel_ready(struct channel *ch);
/* The data plane has let go of its way. True: it is ending, and settled with everybody if that was
 * all; it may be freed. */
bool channel_rested(struct channel *ch);
/* With what reason the other end ends, when this one does. */
static inline int channel_reason_there(const struct channel *ch) {
    return ch->given_up ? RDMAD_E_CANCELED : ch->reason;
}
/* PARTED, and nobody has to be told any more. */
void channel_free_parted(struct channel *ch);
/* It is over; harmless when it is already. The first reason counts. */
void channel_end(struct channel *ch, int reason, const char *text);
/* The same from the data plane. The client is told this reason even if the channel was ended here
 * meanwhile for another, because the data plane's ops end with this one. */
void channel_ended_there(struct channel *ch, int reason, const char *text);
/* The client closes it: with linger what it sent before is delivered first. done: no op of it is
 * under way and ch is gone. */
void channel_close(struct channel *ch, bool linger, plane_done *done, void *arg);

/* Connects ch to a service of this daemon. */
void channel_connect_local(struct channel *ch, const char *service, uint64_t timeout_ns);
/* Its seek (channel_away.h), if its other end comes back to this daemon, too. */
void channel_seek_local(struct channel *ch);

/* For a closing session: ends the channels of other sessions whose other end is this session's.
 * done: they have ended. */
void channels_end_others(struct session *s, plane_done *done, void *arg);
/* After plane_session_drop is done. done: the last channel is freed. */
void channels_release_session(struct session *s, plane_done *done, void *arg);

/* What all channels that ever were here have moved. */
void channels_count(const struct state *st, struct channel_totals *out);
/* What waits in those that there are. */
struct channel_queues {
    uint64_t sends_waiting, receives_posted, away;
};
void channels_queues(const struct state *st, struct channel_queues *out);

#endif
