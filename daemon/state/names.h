/* SPDX-License-Identifier: MIT */
/*
 * names.h - what is published on this daemon, in order of bytes, and who watches it.
 *
 * A lease or a service embeds a struct name, and no two of them have the same name. Nobody sees a
 * name whose scope does not admit them.
 *
 * The happy path of a watch: watch_begin tells what is there, then each name that comes or goes.
 * Both go through the watch's ops to a client or a peer. If that one does not read (lags), nothing
 * is stored for it. Instead each name has the number of its last change, and the watch the number
 * up to which it was told; when there is room again it goes on from there. So the reader ends up
 * with what there is, however slow it is: a name that came and went meanwhile is told as gone or
 * not at all, one that went and came as there again. While a watch is behind, up to NAMES_GONE_MAX
 * names that are gone are remembered for it; a watch that is further behind begins anew
 * (NAMES_ANEW).
 *
 * However many names there are, a pass of the loop looks at a bounded number. Watches with more to
 * look at wait in a line, and a timer that is due at once goes on with them in turn.
 *
 * A watch of a peer's names has no table here: the peer sends changes ("news", watch_news). They
 * come at the pace of the reader, too: at most WATCH_WINDOW are on their way beyond those that
 * more() was called for.
 */
#ifndef RDMAD_STATE_NAMES_H
#define RDMAD_STATE_NAMES_H

#include "daemon/base/list.h"
#include "daemon/base/tree.h"
#include "daemon/state/scope.h"
#include <rdmad/wire.h>

#define WATCH_WINDOW 64u
#define NAMES_GONE_MAX 4096u
/* How many names are looked at for one watch before others have their turn, and how many in all in
 * a pass; and how many watches are told of a change at once when it happens. */
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

/* Lists up to max names that begin with prefix, come after the text "listed" ("": from the first)
 * and that who may see. *more: there are others. */
unsigned names_list(const struct name_table *ns, const struct lessee *who, const char *prefix,
                    const char *listed, struct rdmad_name_entry *out, unsigned max, bool *more);
unsigned names_gone(const struct name_table *ns); /* how many are remembered that are gone */
/* Returns 0 (also for ""), or RDMAD_E_NAME if no name can begin with text, and err says why. */
int names_check_prefix(const char *text, struct error *err);

/* ---- watches ---- */

struct watch;
/* What a watch is told. ANEW: forget all that was told before; what there is follows. */
enum name_news { NAME_THERE, NAME_GONE, NAMES_ANEW };
struct watch_ops {
    bool (*lags)(struct watch *w);
    void (*tell)(struct watch *w, const struct rdmad_name_entry *entry, enum name_news news);
    /* Of a peer's names: count were passed on, so as many more may come. */
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
    struct name_table *names; /* NULL: a peer's names, of which watch_news tells */
    struct lessee who;
    const struct watch_ops *ops;
    bool walking;   /* through what was there when it began */
    bool behind;    /* there are changes that it was not told of */
    uint64_t since; /* up to this change it was told, or is being told by walking */
    int reason;     /* why it is over; 0 while it is not */
    char prefix[RDMAD_NAME_MAX + 1];
    char at[RDMAD_NAME_MAX + 1]; /* while walking: told up to here */
    struct list pending;         /* of a peer's names: changes that wait, at most WATCH_WINDOW */
    unsigned npending, passed;   /* passed: told, and more() not told of it */
};

/* Begins to tell what is there: before it returns, as much as there is room for and as a pass
 * allows. */
void watch_begin(struct watch *w, struct name_table *ns, const struct lessee *who,
                 const char *prefix, const struct watch_ops *ops);
/* A change of a peer's names. */
void watch_news(struct watch *w, const struct rdmad_name_entry *entry, enum name_news news);
void watch_over(struct watch *w, int reason);
void watch_go_on(struct watch *w); /* there is room again; may end it */
void watch_end(struct watch *w);   /* tells nothing more */

#endif
