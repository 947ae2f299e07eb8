/* SPDX-License-Identifier: MIT */
/*
 * names.c - a tree of names by text, another by whom they are for, and a list of watches.
 *
 * A caller belongs to few scope classes: everybody, and its uid, or its address and name. A listing
 * goes through the names of these classes, merged, so names that the caller may not see cost
 * nothing.
 *
 * A watch first walks through the names that were there when it began, in order of text. Names that
 * have changed since are left out of that; they are told from another tree, in the order of
 * changes. So every name is told once for its last change. A watch that has caught up is told of a
 * change as it happens.
 *
 * A name that goes leaves a record of that in the order of changes, if there is a watch that is
 * behind and would see it; the records go when no watch is behind. With NAMES_GONE_MAX of them the
 * oldest gives way, and whoever had not come as far begins anew.
 *
 * Clients choose how many names there are that a watch passes by, and how many watches there are
 * that see a name. So a watch looks at NAMES_LOOKS names and then waits in line (late) for the next
 * pass; and of a change NAMES_TOLD_AT_ONCE watches are told at once, and the others later, as
 * watches that are behind.
 */
#include "daemon/state/names.h"
#include "daemon/base/timers.h"
#include <stdlib.h>
#include <string.h>

struct name_table {
    struct tree tree, by_class;
    struct tree by_change; /* of each class; also what is gone, */
    struct tree gone;      /* which is here by class and text, */
    struct list records;   /* and here the oldest first */
    unsigned nrecords;
    uint64_t change;  /* the last */
    uint64_t horizon; /* what is gone was forgotten up to this change */
    struct list watches;
    unsigned nbehind; /* of them */
    struct timers *timers;
    struct timer pass;
    struct list late; /* of struct watch */
};

struct name_record {
    struct list node;
    struct name name;
    char text[RDMAD_NAME_MAX + 1];
};

struct watch_change {
    struct list node;
    enum name_news what;
    struct rdmad_name_entry entry;
};

/* ---- the table --------------------------------------------------------------------------- */

static struct name *name_of_node(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct name, node) : NULL;
}

static int by_text(const struct tree_node *a, const struct tree_node *b) {
    return strcmp(name_of_node(a)->text, name_of_node(b)->text);
}

static struct name *name_of_class(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct name, by_class) : NULL;
}

static int by_class(const struct tree_node *a, const struct tree_node *b) {
    const struct name *x = name_of_class(a), *y = name_of_class(b);
    int order = memcmp(&x->class, &y->class, sizeof(x->class));
    return order ? order : strcmp(x->text, y->text);
}

static struct name *name_of_change(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct name, by_change) : NULL;
}

static int by_change(const struct tree_node *a, const struct tree_node *b) {
    const struct name *x = name_of_change(a), *y = name_of_change(b);
    int order = memcmp(&x->class, &y->class, sizeof(x->class));
    return order ? order : (x->change > y->change) - (x->change < y->change);
}

static void run_late(struct timer *timer, uint64_t now_ns);

int names_new(struct timers *timers, struct name_table **out) {
    struct name_table *ns = calloc(1, sizeof(*ns));
    if (!ns)
        return RDMAD_E_NOMEM;
    ns->timers = timers;
    timer_init(&ns->pass, run_late);
    list_init(&ns->late);
    tree_init(&ns->tree, by_text, NULL);
    tree_init(&ns->by_class, by_class, NULL);
    tree_init(&ns->by_change, by_change, NULL);
    tree_init(&ns->gone, by_class, NULL);
    list_init(&ns->records);
    list_init(&ns->watches);
    *out = ns;
    return 0;
}

/* ---- what is gone ------------------------------------------------------------------------ */

static void record_free(struct name_table *ns, struct name_record *r) {
    list_remove(&r->node);
    tree_remove(&ns->by_change, &r->name.by_change);
    tree_remove(&ns->gone, &r->name.by_class);
    ns->nrecords--;
    free(r);
}

static void records_clear(struct name_table *ns) {
    for (struct list *node; (node = list_first(&ns->records));)
        record_free(ns, list_entry(node, struct name_record, node));
}

/* Drops the records of names that are gone if no watch is behind. */
static void records_check(struct name_table *ns) {
    if (!ns->nbehind)
        records_clear(ns);
}

/* The name is there again, in the same scope class: its record of being gone is dropped, because
 * watches are told of the name. */
static void record_forget(struct name_table *ns, const struct name *name) {
    struct tree_node *node = tree_find(&ns->gone, &name->by_class);
    if (node)
        record_free(ns, container_of(name_of_class(node), struct name_record, name));
}

/* For a change that was just counted. */
static void record_gone(struct name_table *ns, const struct name *name) {
    struct name_record *r = calloc(1, sizeof(*r));
    if (!r) {
        ns->horizon = ns->change;
        return;
    }
    if (ns->nrecords == NAMES_GONE_MAX) {
        struct name_record *oldest = list_entry(list_first(&ns->records), struct name_record, node);
        ns->horizon = oldest->name.change;
        record_free(ns, oldest);
    }
    strncpy(r->text, name->text, sizeof(r->text) - 1);
    r->name = (struct name){.text = r->text,
                            .kind = name->kind,
                            .class = name->class,
                            .change = ns->change,
                            .gone = true};
    tree_add(&ns->by_change, &r->name.by_change);
    tree_add(&ns->gone, &r->name.by_class);
    list_append(&ns->records, &r->node);
    ns->nrecords++;
}

unsigned names_gone(const struct name_table *ns) {
    return ns->nrecords;
}

void names_free(struct name_table *ns) {
    if (ns) {
        timer_unset(ns->timers, &ns->pass);
        records_clear(ns);
    }
    free(ns);
}

struct name *names_find(const struct name_table *ns, const char *text) {
    struct name key = {.text = text};
    return name_of_node(tree_find(&ns->tree, &key.node));
}

int names_check_free(const struct name_table *ns, const char *text, struct error *err) {
    const struct name *namesake = names_find(ns, text);
    if (!namesake)
        return 0;
    return error_set(err, RDMAD_E_EXISTS,
                     "a %s is published as \"%s\" already; choose another name or wait until it "
                     "ends",
                     namesake->kind == RDMAD_NAME_SERVICE ? "service" : "lease", text);
}

static bool has_prefix(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void name_describe(const struct name *name, struct rdmad_name_entry *out) {
    *out = (struct rdmad_name_entry){.kind = name->kind};
    strncpy(out->name, name->text, sizeof(out->name) - 1);
    if (name->describe)
        name->describe(name, out);
}

int names_check_prefix(const char *text, struct error *err) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strspn(text, allowed);
    if (text[n])
        return error_set(err, RDMAD_E_NAME,
                         "no name begins so: byte %zu is 0x%02x, and names are of A-Z a-z 0-9 . _ "
                         "- only",
                         n, (unsigned char)text[n]);
    if (text[0] == '.')
        return error_set(err, RDMAD_E_NAME, "no name begins with a dot");
    return 0;
}

/* A walk through the names that a caller may see and that begin with prefix. */
struct name_walk {
    const char *prefix;
    struct scope_class class[SCOPE_CLASSES];
    const struct name *at[SCOPE_CLASSES]; /* next of each class; NULL: no more */
};

static const struct name *name_walk_still(const struct name_walk *w, unsigned i,
                                          const struct tree_node *node) {
    const struct name *name = name_of_class(node);
    bool in = name && memcmp(&name->class, &w->class[i], sizeof(name->class)) == 0 &&
              has_prefix(name->text, w->prefix);
    return in ? name : NULL;
}

/* From behind what was listed last. */
static void name_walk_begin(struct name_walk *w, const struct name_table *ns,
                            const struct lessee *who, const char *prefix, const char *listed) {
    const char *from = strcmp(listed, prefix) < 0 ? prefix : listed;
    *w = (struct name_walk){.prefix = prefix};
    for (unsigned i = scope_classes(who, w->class); i-- > 0;) {
        struct name key = {.text = from, .class = w->class[i]};
        w->at[i] = name_walk_still(w, i, tree_from(&ns->by_class, &key.by_class));
        if (w->at[i] && listed[0] && strcmp(w->at[i]->text, listed) == 0)
            w->at[i] = name_walk_still(w, i, tree_next(&w->at[i]->by_class));
    }
}

/* In order of bytes; NULL: that was all. */
static const struct name *name_walk_next(struct name_walk *w) {
    unsigned i = 0;
    for (unsigned k = 1; k < SCOPE_CLASSES; k++)
        if (!w->at[i] || (w->at[k] && strcmp(w->at[k]->text, w->at[i]->text) < 0))
            i = k;
    const struct name *name = w->at[i];
    if (name)
        w->at[i] = name_walk_still(w, i, tree_next(&name->by_class));
    return name;
}

unsigned names_list(const struct name_table *ns, const struct lessee *who, const char *prefix,
                    const char *listed, struct rdmad_name_entry *out, unsigned max, bool *more) {
    const struct name *at;
    struct name_walk way;
    unsigned n = 0;
    name_walk_begin(&way, ns, who, prefix, listed);
    while ((at = name_walk_next(&way)) && n < max)
        name_describe(at, &out[n++]);
    *more = at;
    return n;
}

/* ---- watches ----------------------------------------------------------------------------- */

static void forget_pending(struct watch *w) {
    struct list *node;
    while ((node = list_pop(&w->pending)))
        free(list_entry(node, struct watch_change, node));
    w->npending = 0;
}

static void fall_behind(struct watch *w, uint64_t since) {
    w->behind = true;
    w->since = since;
    w->names->nbehind++;
}

static void caught_up(struct watch *w) {
    w->behind = false;
    w->names->nbehind--;
    records_check(w->names);
}

/* From now on the table remembers nothing for it. */
static void watch_leave(struct watch *w) {
    list_remove(&w->node);
    list_remove(&w->late);
    forget_pending(w);
    if (w->names && w->behind)
        caught_up(w);
}

void watch_over(struct watch *w, int reason) {
    if (w->reason)
        return;
    w->reason = reason;
    w->walking = false;
    watch_leave(w);
    if (!w->ops->lags(w))
        w->ops->over(w, reason);
}

void watch_end(struct watch *w) {
    watch_leave(w);
}

/* ---- of somebody else's names ---- */

static void pass_on(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    w->ops->tell(w, entry, what);
    if (++w->passed < WATCH_WINDOW / 2 || !w->ops->more)
        return;
    w->ops->more(w, w->passed);
    w->passed = 0;
}

void watch_news(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    struct watch_change *news;
    if (w->reason)
        return;
    if (list_empty(&w->pending) && !w->ops->lags(w)) {
        pass_on(w, entry, what);
        return;
    }
    /* No daemon of ours sends more changes than were asked for. */
    if (w->npending == WATCH_WINDOW || !(news = malloc(sizeof(*news)))) {
        watch_over(w, w->npending == WATCH_WINDOW ? RDMAD_E_PROTOCOL : RDMAD_E_NOMEM);
        return;
    }
    *news = (struct watch_change){.what = what, .entry = *entry};
    list_append(&w->pending, &news->node);
    w->npending++;
}

static void pass_on_pending(struct watch *w) {
    struct list *node;
    while (!w->ops->lags(w) && (node = list_pop(&w->pending))) {
        struct watch_change *news = list_entry(node, struct watch_change, node);
        w->npending--;
        pass_on(w, &news->entry, news->what);
        free(news);
    }
}

/* ---- of our own ---- */

/* Without memory for the next pass the line is emptied: a watch that is behind joins it again at
 * the next change that it would see. */
static void names_pass_set(struct name_table *ns) {
    if (timer_set(ns->timers, &ns->pass, 0))
        while (list_pop(&ns->late))
            ;
}

/* It has had its turn, and goes on in the next pass. */
static void line_up(struct watch *w) {
    struct name_table *ns = w->names;
    list_remove(&w->late);
    list_append(&ns->late, &w->late);
    names_pass_set(ns);
}

/* As far as there is room. What has changed since it began is left to catch_up. Returns how many of
 * looks are left. */
static unsigned walk(struct watch *w, unsigned looks) {
    const struct name *at;
    struct rdmad_name_entry entry;
    struct name_walk way;
    name_walk_begin(&way, w->names, &w->who, w->prefix, w->at);
    while ((at = name_walk_next(&way))) {
        if (!looks || w->ops->lags(w))
            return looks;
        looks--;
        memcpy(w->at, at->text, strlen(at->text) + 1);
        if (at->change > w->since)
            continue;
        name_describe(at, &entry);
        w->ops->tell(w, &entry, NAME_THERE);
    }
    w->walking = false;
    if (w->ops->told)
        w->ops->told(w);
    return looks;
}

/* The first change after that number among the names that w sees; NULL: none. */
static const struct name *next_change(const struct watch *w, uint64_t after) {
    struct scope_class class[SCOPE_CLASSES];
    const struct name *first = NULL;
    for (unsigned i = scope_classes(&w->who, class); i-- > 0;) {
        struct name key = {.class = class[i], .change = after + 1};
        const struct name *at = name_of_change(tree_from(&w->names->by_change, &key.by_change));
        if (at && memcmp(&at->class, &class[i], sizeof(class[i])) == 0 &&
            (!first || at->change < first->change))
            first = at;
    }
    return first;
}

static unsigned catch_up(struct watch *w, unsigned looks) {
    const struct name *at;
    struct rdmad_name_entry entry;
    while ((at = next_change(w, w->since))) {
        if (!looks || w->ops->lags(w))
            return looks;
        looks--;
        w->since = at->change;
        if (!has_prefix(at->text, w->prefix))
            continue;
        name_describe(at, &entry);
        w->ops->tell(w, &entry, at->gone ? NAME_GONE : NAME_THERE);
    }
    caught_up(w);
    return looks;
}

/* Whether names that it was not told of are not remembered any more: then it begins anew. */
static bool is_lost(const struct watch *w) {
    return w->behind && !w->walking && w->since < w->names->horizon;
}

static void go_on(struct watch *w) {
    static const struct rdmad_name_entry none;
    unsigned looks = NAMES_LOOKS;
    do {
        if (w->ops->lags(w))
            return;
        if (is_lost(w)) {
            w->ops->tell(w, &none, NAMES_ANEW);
            w->since = w->names->change;
            w->at[0] = '\0';
            w->walking = true;
        }
        if (w->walking)
            looks = walk(w, looks);
    } while (!w->walking && is_lost(w));
    if (!w->walking && w->behind)
        looks = catch_up(w, looks);
    if (w->behind && !looks)
        line_up(w);
}

static void run_late(struct timer *timer, uint64_t now_ns) {
    struct name_table *ns = container_of(timer, struct name_table, pass);
    struct list *node;
    (void)now_ns;
    for (unsigned n = 0; n < NAMES_LOOKS_PASS / NAMES_LOOKS && (node = list_pop(&ns->late)); n++)
        go_on(list_entry(node, struct watch, late)); /* may end it, and others */
    if (!list_empty(&ns->late))
        names_pass_set(ns);
}

void watch_begin(struct watch *w, struct name_table *ns, const struct lessee *who,
                 const char *prefix, const struct watch_ops *ops) {
    *w = (struct watch){.names = ns, .ops = ops};
    list_init(&w->node);
    list_init(&w->of_session);
    list_init(&w->late);
    list_init(&w->pending);
    if (who)
        w->who = *who;
    strncpy(w->prefix, prefix, sizeof(w->prefix) - 1);
    if (!ns)
        return;
    w->walking = true;
    fall_behind(w, ns->change);
    list_append(&ns->watches, &w->node);
    go_on(w);
}

void watch_go_on(struct watch *w) {
    if (w->reason) {
        if (!w->ops->lags(w))
            w->ops->over(w, w->reason);
    } else if (!w->names) {
        pass_on_pending(w);
    } else if (w->behind && list_empty(&w->late)) {
        go_on(w);
    }
}

/* ---- coming and going -------------------------------------------------------------------- */

/* Tells watches of the last change. Returns whether some that see the name have to be told later.
 */
static bool tell_watches(struct name_table *ns, const struct name *name, enum name_news what) {
    struct rdmad_name_entry entry;
    unsigned count = 0;
    bool later = false;
    name_describe(name, &entry);
    list_for_each_safe (node, &ns->watches) {
        struct watch *w = list_entry(node, struct watch, node);
        if (!has_prefix(name->text, w->prefix) || !scope_admits(&name->scope, &w->who))
            continue;
        if (!w->behind && (count == NAMES_TOLD_AT_ONCE || w->ops->lags(w)))
            fall_behind(w, ns->change - 1);
        if (w->behind) {
            later = true;
            if (list_empty(&w->late) && !w->ops->lags(w))
                line_up(w);
        } else {
            w->ops->tell(w, &entry, what);
            count++;
        }
    }
    return later;
}

void names_add(struct name_table *ns, struct name *name) {
    name->names = ns;
    name->class = scope_class(&name->scope);
    name->change = ++ns->change;
    tree_add(&ns->tree, &name->node);
    tree_add(&ns->by_class, &name->by_class);
    record_forget(ns, name);
    tree_add(&ns->by_change, &name->by_change);
    tell_watches(ns, name, NAME_THERE);
}

void names_remove(struct name *name) {
    struct name_table *ns = name->names;
    if (!ns)
        return;
    name->names = NULL;
    ns->change++;
    tree_remove(&ns->tree, &name->node);
    tree_remove(&ns->by_class, &name->by_class);
    tree_remove(&ns->by_change, &name->by_change);
    if (tell_watches(ns, name, NAME_GONE))
        record_gone(ns, name);
}
