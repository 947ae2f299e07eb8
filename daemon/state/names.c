/* SPDX-License-Identifier: MIT */
/*
 * names.c - a tree of names by text, another by whom they are for, and a list of watches.
 *
 * Who asks is of two classes at most (anybody, and his uid or address): a listing goes through what
 * is for these, merged, so that what he may not see costs him, and us, nothing.
 *
 * While a watch walks through what is there, news of names behind its place is told, and news of
 * those before it is left to the walk, which will meet them or not. So every name that is there is
 * told exactly once.
 */
#include "daemon/state/names.h"
#include <stdlib.h>
#include <string.h>

struct names {
    struct tree tree, by_class;
    struct list watches;
};

struct news {
    struct list node;
    bool gone;
    struct rdmad_name_entry entry;
};

/* ---- the table --------------------------------------------------------------------------- */

static struct name *of(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct name, node) : NULL;
}

static int by_text(const struct tree_node *a, const struct tree_node *b) {
    return strcmp(of(a)->text, of(b)->text);
}

static struct name *of_class(const struct tree_node *node) {
    return node ? container_of((struct tree_node *)(uintptr_t)node, struct name, by_class) : NULL;
}

static int by_class(const struct tree_node *a, const struct tree_node *b) {
    const struct name *x = of_class(a), *y = of_class(b);
    int order = memcmp(&x->class, &y->class, sizeof(x->class));
    return order ? order : strcmp(x->text, y->text);
}

int names_new(struct names **out) {
    struct names *ns = calloc(1, sizeof(*ns));
    if (!ns)
        return RDMAD_E_NOMEM;
    tree_init(&ns->tree, by_text, NULL);
    tree_init(&ns->by_class, by_class, NULL);
    list_init(&ns->watches);
    *out = ns;
    return 0;
}

void names_free(struct names *ns) {
    free(ns);
}

struct name *names_find(const struct names *ns, const char *text) {
    struct name key = {.text = text};
    return of(tree_find(&ns->tree, &key.node));
}

int names_check_free(const struct names *ns, const char *text, struct error *err) {
    const struct name *namesake = names_find(ns, text);
    if (!namesake)
        return 0;
    return error_set(err, RDMAD_E_EXISTS,
                     "a %s is published as \"%s\" already; choose another name or wait until it "
                     "ends",
                     namesake->kind == RDMAD_NAME_SERVICE ? "service" : "lease", text);
}

static bool begins(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void describe(const struct name *name, struct rdmad_name_entry *out) {
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

/* A way through the names that one may see and that begin with prefix. */
struct way {
    const char *prefix;
    struct scope_class class[2];
    const struct name *at[2]; /* next of each class; NULL: no more */
};

static const struct name *still(const struct way *w, unsigned i, const struct tree_node *node) {
    const struct name *name = of_class(node);
    bool in = name && memcmp(&name->class, &w->class[i], sizeof(name->class)) == 0 &&
              begins(name->text, w->prefix);
    return in ? name : NULL;
}

/* From behind what was listed last. */
static void way_begin(struct way *w, const struct names *ns, const struct lessee *who,
                      const char *prefix, const char *listed) {
    const char *from = strcmp(listed, prefix) < 0 ? prefix : listed;
    *w = (struct way){.prefix = prefix};
    for (unsigned i = scope_classes(who, w->class); i-- > 0;) {
        struct name key = {.text = from, .class = w->class[i]};
        w->at[i] = still(w, i, tree_from(&ns->by_class, &key.by_class));
        if (w->at[i] && listed[0] && strcmp(w->at[i]->text, listed) == 0)
            w->at[i] = still(w, i, tree_next(&w->at[i]->by_class));
    }
}

/* In order of bytes; NULL: that was all. */
static const struct name *way_next(struct way *w) {
    unsigned i = !w->at[0] || (w->at[1] && strcmp(w->at[1]->text, w->at[0]->text) < 0);
    const struct name *name = w->at[i];
    if (name)
        w->at[i] = still(w, i, tree_next(&name->by_class));
    return name;
}

unsigned names_list(const struct names *ns, const struct lessee *who, const char *prefix,
                    const char *listed, struct rdmad_name_entry *out, unsigned max, bool *more) {
    const struct name *at;
    struct way way;
    unsigned n = 0;
    way_begin(&way, ns, who, prefix, listed);
    while ((at = way_next(&way)) && n < max)
        describe(at, &out[n++]);
    *more = at;
    return n;
}

/* ---- watches ----------------------------------------------------------------------------- */

static void forget_pending(struct watch *w) {
    struct list *node;
    while ((node = list_pop(&w->pending)))
        free(list_entry(node, struct news, node));
    w->npending = 0;
}

static bool has_room(struct watch *w) {
    return list_empty(&w->pending) && !w->ops->lags(w);
}

void watch_over(struct watch *w, int reason) {
    if (w->reason)
        return;
    list_remove(&w->node);
    forget_pending(w);
    w->reason = reason;
    w->walking = false;
    if (!w->ops->lags(w))
        w->ops->over(w, reason);
}

void watch_news(struct watch *w, const struct rdmad_name_entry *entry, bool gone) {
    struct news *news;
    if (w->reason)
        return;
    if (has_room(w)) {
        w->ops->tell(w, entry, gone);
        return;
    }
    if (w->npending == WATCH_PENDING_MAX || !(news = malloc(sizeof(*news)))) {
        watch_over(w, w->npending == WATCH_PENDING_MAX ? RDMAD_E_LIMIT : RDMAD_E_NOMEM);
        return;
    }
    *news = (struct news){.gone = gone, .entry = *entry};
    list_append(&w->pending, &news->node);
    w->npending++;
}

/* As far as there is room. */
static void walk(struct watch *w) {
    const struct name *at;
    struct rdmad_name_entry entry;
    struct way way;
    way_begin(&way, w->names, &w->who, w->prefix, w->at);
    while ((at = way_next(&way))) {
        if (w->ops->lags(w))
            return;
        memcpy(w->at, at->text, strlen(at->text) + 1);
        describe(at, &entry);
        w->ops->tell(w, &entry, false);
    }
    w->walking = false;
    if (w->ops->told)
        w->ops->told(w);
}

void watch_begin(struct watch *w, struct names *ns, const struct lessee *who, const char *prefix,
                 const struct watch_ops *ops) {
    *w = (struct watch){.names = ns, .ops = ops, .walking = ns != NULL};
    list_init(&w->node);
    list_init(&w->of_session);
    list_init(&w->pending);
    if (who)
        w->who = *who;
    strncpy(w->prefix, prefix, sizeof(w->prefix) - 1);
    if (!ns)
        return;
    list_append(&ns->watches, &w->node);
    walk(w);
}

void watch_go_on(struct watch *w) {
    struct list *node;
    if (w->reason) {
        if (!w->ops->lags(w))
            w->ops->over(w, w->reason);
        return;
    }
    while (!w->ops->lags(w) && (node = list_pop(&w->pending))) {
        struct news *news = list_entry(node, struct news, node);
        w->npending--;
        w->ops->tell(w, &news->entry, news->gone);
        free(news);
    }
    if (w->walking && has_room(w))
        walk(w);
}

void watch_end(struct watch *w) {
    list_remove(&w->node);
    forget_pending(w);
}

/* ---- coming and going -------------------------------------------------------------------- */

static void tell_watches(struct names *ns, const struct name *name, bool gone) {
    struct rdmad_name_entry entry;
    describe(name, &entry);
    list_for_each_safe (node, &ns->watches) {
        struct watch *w = list_entry(node, struct watch, node);
        bool ahead = w->walking && strcmp(name->text, w->at) > 0;
        if (!ahead && begins(name->text, w->prefix) && scope_admits(&name->scope, &w->who))
            watch_news(w, &entry, gone);
    }
}

void names_add(struct names *ns, struct name *name) {
    name->names = ns;
    name->class = scope_class(&name->scope);
    tree_add(&ns->tree, &name->node);
    tree_add(&ns->by_class, &name->by_class);
    tell_watches(ns, name, false);
}

void names_remove(struct name *name) {
    struct names *ns = name->names;
    if (!ns)
        return;
    name->names = NULL;
    tree_remove(&ns->tree, &name->node);
    tree_remove(&ns->by_class, &name->by_class);
    tell_watches(ns, name, true);
}
