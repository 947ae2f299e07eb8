/* SPDX-License-Identifier: MIT */
/*
 * names.h - what is published on this daemon, in order of bytes, and who watches it.
 *
 * A lease or a service embeds a struct name; a name is one's or the other's. Nobody sees a name
 * whose scope does not admit him.
 *
 * The happy path of a watch: watch_begin tells what is there, then each name that comes or goes.
 * Both go through the watch's ops to a client or a peer, who may not read: then (lags) nothing is
 * put aside for him. Each name has the number of its last change, and the watch the number up to
 * which it was told; when there is room again it goes on from there. So it ends up with what there
 * is, however slow it was: a name that came and went meanwhile may be told as gone or not at all,
 * one that went and came as there again. Of names that are gone, as many as NAMES_GONE_MAX are
 * remembered while a watch is behind; one that is further behind begins anew (NAMES_ANEW).
 *
 * Whatever there is to look through, a pass of the loop looks at a bounded number of names: the
 * rest waits in a line, and a timer that is due at once goes on with those who wait, in turn.
 *
 * News of somebody else's names (a peer's) comes at the pace of its reader, too: no more than
 * WATCH_WINDOW are under way that more() was not told of.
 */
#ifndef RDMAD_STATE_NAMES_H
#define RDMAD_STATE_NAMES_H

#include "daemon/base/list.h"
#include "daemon/base/tree.h"
#include "daemon/state/scope.h"
#include <rdmad/wire.h>

#define WATCH_WINDOW 64u
#define NAMES_GONE_MAX 4096u
/* Names that are looked at for one watch before others have their turn, and in all in a pass; and
 * watches that are told of a change where it happens. */
#define NAMES_LOOKS 64u
#define NAMES_LOOKS_PASS 256u
#define NAMES_TOLD_AT_ONCE 64u

struct name_table;
struct timers; /* base/timers.h */

struct name {
    struct tree_node node, by_class, by_change;
    struct scope_class class; /* of scope, while it is in */
    uint64_t change;          /* likewise: the number of the last change that concerns it */
    bool gone;                /* names.c's own: one that is remembered */
    struct name_table *names; /* NULL: not in */
    const char *text;
    uint32_t kind; /* enum rdmad_name_kind */
    struct scope scope;
    /* rights, length and ttl_ns of out, which is zero; NULL: there is nothing to say. */
    void (*describe)(const struct name *name, struct rdmad_name_entry *out);
};

int names_new(struct timers *timers, struct name_table **out); /* 0 or RDMAD_E_NOMEM */
void names_free(struct name_table *ns); /* nothing is published or watched any more */

/* Publishes; the caller has seen by names_check_free that its name is free. */
void names_add(struct name_table *ns, struct name *name);
void names_remove(struct name *name); /* harmless when it is not in */
struct name *names_find(const struct name_table *ns, const char *text);
/* RDMAD_E_EXISTS when text is the name of something else. */
int names_check_free(const struct name_table *ns, const char *text, struct error *err);

/* Up to max of those that begin with prefix and come after the text "listed" ("": from the first),
 * as far as who may see them; *more: there are others. */
unsigned names_list(const struct name_table *ns, const struct lessee *who, const char *prefix,
                    const char *listed, struct rdmad_name_entry *out, unsigned max, bool *more);
unsigned names_gone(const struct name_table *ns); /* how many are remembered that are gone */
/* 0, or RDMAD_E_NAME with what is wrong with text, which no name begins with. "": nothing. */
int names_check_prefix(const char *text, struct error *err);

/* ---- watches ---- */

struct watch;
/* What is told. ANEW: all that was told before is void, what there is follows. */
enum name_news { NAME_THERE, NAME_GONE, NAMES_ANEW };
struct watch_ops {
    bool (*lags)(struct watch *w);
    void (*tell)(struct watch *w, const struct rdmad_name_entry *entry, enum name_news news);
    /* Of somebody else's names: count were told, as many more may come. */
    void (*more)(struct watch *w, unsigned count);
    /* All that was there at the beginning has been told. May be NULL. */
    void (*told)(struct watch *w);
    /* It has ended by itself; called when there is room, and the last call. May free it. */
    void (*over)(struct watch *w, int reason);
};
struct watch { /* embedded */
    struct list node;
    struct list of_session;   /* in session->watches, when it is one's */
    struct list late;         /* in the line of those that go on in the next pass */
    struct name_table *names; /* NULL: somebody else's names; watch_news tells of them */
    struct lessee who;
    const struct watch_ops *ops;
    bool walking;   /* through what was there when it began */
    bool behind;    /* there are changes that it was not told of */
    uint64_t since; /* up to this change it was told, or is being told by walking */
    int reason;     /* why it is over; 0 while it is not */
    char prefix[RDMAD_NAME_MAX + 1];
    char at[RDMAD_NAME_MAX + 1]; /* while walking: told up to here */
    struct list pending;       /* of somebody else's names: news that wait, at most WATCH_WINDOW */
    unsigned npending, passed; /* passed: told, and more() not told of it */
};

/* Tells what is there, before it returns as much as there is room for, and as a pass allows. */
void watch_begin(struct watch *w, struct name_table *ns, const struct lessee *who,
                 const char *prefix, const struct watch_ops *ops);
/* Of somebody else's names. */
void watch_news(struct watch *w, const struct rdmad_name_entry *entry, enum name_news news);
void watch_over(struct watch *w, int reason);
void watch_go_on(struct watch *w); /* there is room again; may end it */
void watch_end(struct watch *w);   /* tells nothing more */

#endif
