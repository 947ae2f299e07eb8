/* SPDX-License-Identifier: MIT */
/*
 * identity.c - loads the identity directory, looks whether it has changed, and warns in time.
 *
 * Whether it has changed is told from a sum over what stat says of its files: a file that is put in
 * the place of another has another inode.
 *
 * A try that failed for want of memory or descriptors is repeated at the next look: the files may
 * be as they should be, and say who is revoked. So is any other that failed, though not so soon,
 * for OpenSSL seldom says that memory was what it wanted. Neither is a line in the log again.
 */
#include "daemon/state/identity.h"
#include "daemon/base/audit.h"
#include "daemon/base/log.h"
#include "pki/context.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LOOKED_AT_MAX 64u /* files of trust/ */
#define DAY INT64_C(86400)
#define GRACE INT64_C(3600) /* in which peer/connect/renewal.c asks once a minute */

struct identity {
    struct state *state;
    void (*changed)(struct state *st);
    char dir[PKI_PATH_MAX];
    struct pki_identity *pki; /* NULL: there is none */
    SSL_CTX *accepts, *dials;
    uint64_t number;
    uint64_t seen;      /* the sum over the files that were tried last */
    struct error wrong; /* why those are not in use; code 0: they are */
    uint64_t again_ns;  /* if so: they are tried again then */
    struct timer look;
    int64_t warned_days; /* the log has said it at so many */
};

/* ---- its files ----------------------------------------------------------------------------- */

static void sum_add(uint64_t *sum, uint64_t value) {
    *sum = (*sum ^ value) * UINT64_C(1099511628211); /* FNV-1a, by words */
}

static void sum_file(uint64_t *sum, const char *dir, const char *name) {
    char path[PKI_PATH_MAX + 260];
    struct stat is;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (lstat(path, &is)) {
        sum_add(sum, 1);
        return;
    }
    sum_add(sum, is.st_ino);
    sum_add(sum, (uint64_t)is.st_size);
    sum_add(sum, (uint64_t)is.st_ctim.tv_sec);
    sum_add(sum, (uint64_t)is.st_ctim.tv_nsec);
}

/* A directory's own times change when a file comes or goes, or is put in another's place; those of
 * the first files in trust/ are looked at in case one is written where it is. */
static void sum_trust(uint64_t *sum, const char *dir) {
    char path[PKI_PATH_MAX + 16];
    const struct dirent *entry;
    sum_file(sum, dir, PKI_TRUST);
    snprintf(path, sizeof(path), "%s/" PKI_TRUST, dir);
    DIR *d = opendir(path);
    for (unsigned n = 0; d && n < LOOKED_AT_MAX && (entry = readdir(d)); n++)
        if (entry->d_name[0] != '.')
            sum_file(sum, path, entry->d_name);
    if (d)
        closedir(d);
}

static uint64_t identity_sum(const char *dir) {
    uint64_t sum = UINT64_C(14695981039346656037);
    sum_file(&sum, dir, PKI_NODE_CERT);
    sum_file(&sum, dir, PKI_NODE_KEY);
    sum_file(&sum, dir, PKI_REVOKED);
    sum_file(&sum, dir, PKI_CA_KEY);
    sum_trust(&sum, dir);
    return sum;
}

/* ---- loading ------------------------------------------------------------------------------- */

static int identity_name_node(const struct identity *id, const struct pki_identity *fresh,
                              struct error *err) {
    struct state *st = id->state;
    const char *configured = st->config->node_name;
    if (configured[0] && strcmp(configured, fresh->name) != 0)
        return error_set(err, RDMAD_E_CONFIG,
                         "node_name is \"%.64s\" and the certificate in %.200s is that of "
                         "\"%.64s\": leave node_name out, or set it to that",
                         configured, id->dir, fresh->name);
    /* URIs of a daemon that listens on all addresses say its name. */
    if (strcmp(st->listen_host, st->node_name) == 0)
        snprintf(st->listen_host, sizeof(st->listen_host), "%s", fresh->name);
    snprintf(st->node_name, sizeof(st->node_name), "%s", fresh->name);
    return 0;
}

static void identity_drop(struct identity *id) {
    SSL_CTX_free(id->accepts);
    SSL_CTX_free(id->dials);
    pki_identity_free(id->pki);
    id->accepts = id->dials = NULL;
    id->pki = NULL;
}

/* fresh is id's, or freed. */
static int identity_take(struct identity *id, struct pki_identity *fresh, struct error *err) {
    struct pki_error why;
    SSL_CTX *accepts = NULL, *dials = NULL;
    int rc = pki_server_context(fresh, &accepts, &why);
    if (!rc)
        rc = pki_client_context(fresh, PKI_PEER, &dials, &why);
    if (rc)
        error_set(err, rc, "%s", why.text);
    else
        rc = identity_name_node(id, fresh, err);
    if (rc) {
        SSL_CTX_free(accepts);
        SSL_CTX_free(dials);
        pki_identity_free(fresh);
        return rc;
    }
    identity_drop(id);
    id->pki = fresh;
    id->number++;
    id->accepts = accepts;
    id->dials = dials;
    id->warned_days = INT64_MAX;
    return 0;
}

static int identity_load(struct identity *id, struct error *err) {
    struct pki_error why;
    struct pki_identity *fresh = NULL;
    int rc = pki_load(id->dir, &fresh, &why);
    if (rc == PKI_NOT_THERE && !id->pki)
        return 0;
    if (rc == PKI_NOT_THERE)
        return error_set(err, RDMAD_E_CONFIG,
                         "the identity in %s is gone: the one that was loaded stays until rdmad "
                         "ends, and without one it does not start beyond loopback",
                         id->dir);
    if (rc)
        return error_set(err, rc, "%s", why.text);
    return identity_take(id, fresh, err);
}

static void identity_said(const struct identity *id) {
    char until[PKI_DATE_TEXT];
    if (id->pki)
        LOG(NOTICE,
            ("identity %s: this node is %s until %s, fingerprint %s", id->dir, id->pki->name,
             pki_date_text(id->pki->not_after, until), id->pki->fingerprint),
            FIELD_STR("NODE", id->pki->name));
}

/* Not that the files are wrong. */
static bool identity_lacked(const struct error *wrong) {
    return wrong->code == RDMAD_E_NOMEM || wrong->code == RDMAD_E_SYSTEM;
}

/* before: what was wrong at the last try. What is wanting makes the files look changed, too. */
static void identity_failed(struct identity *id, const struct error *before, bool changed,
                            bool forced) {
    bool lacked = identity_lacked(&id->wrong);
    id->again_ns = lacked ? 0 : clock_after(state_now(id->state), IDENTITY_AGAIN_NS);
    bool is_other = changed && (!lacked || strcmp(before->text, id->wrong.text) != 0);
    if (forced || !before->code || lacked != identity_lacked(before) || is_other)
        LOG(ERR, ("the identity is not loaded anew, the old one stays: %s", id->wrong.text));
}

int identity_reload(struct state *st, bool forced, struct error *err) {
    struct identity *id = st->identity;
    if (!id || !id->dir[0])
        return 0;
    uint64_t sum = identity_sum(id->dir);
    bool changed = sum != id->seen, again = id->wrong.code && state_now(st) >= id->again_ns;
    if (!changed && !again && !forced)
        return 0;
    const struct error wrong_before = id->wrong;
    const struct pki_identity *before = id->pki;
    id->seen = sum;
    id->wrong = (struct error){0};
    int rc = identity_load(id, &id->wrong);
    if (rc) {
        identity_failed(id, &wrong_before, changed, forced);
        *err = id->wrong;
        return rc;
    }
    if (id->pki && id->pki != before) {
        identity_said(id);
        AUDIT(ADMIN, "identity.loaded", audit_nobody(), audit_nothing(),
              ("the identity of %s was loaded anew", id->pki->name));
        id->changed(st);
    }
    return 0;
}

/* ---- warnings ------------------------------------------------------------------------------ */

/* From when on whoever operates the node should know that it was not renewed. */
static int64_t identity_late(const struct pki_identity *pki) {
    int64_t due = pki_renewal_time(pki), left = pki->not_after - due;
    int64_t late = due + (left / 2 < GRACE ? left / 2 : GRACE);
    int64_t thirty_days = pki->not_after - 30 * DAY;
    return late > thirty_days ? late : thirty_days;
}

/* Of the warnings the last that it is time for, by the days left then; INT64_MAX: it is time for
 * none yet. 0: it has expired. */
static int64_t identity_threshold(const struct pki_identity *pki) {
    int64_t now = (int64_t)time(NULL), left = pki->not_after - now;
    if (left < 0)
        return 0;
    if (now < identity_late(pki))
        return INT64_MAX;
    return left < DAY ? 1 : left < 7 * DAY ? 7 : 30;
}

const char *identity_warning(const struct state *st, char buf[RDMAD_TEXT_MAX + 1]) {
    const struct identity *id = st->identity;
    char until[PKI_DATE_TEXT];
    buf[0] = '\0';
    if (!id)
        return buf;
    if (id->wrong.code) {
        snprintf(buf, RDMAD_TEXT_MAX + 1, "%s", id->wrong.text);
        return buf;
    }
    if (!id->pki)
        return buf;
    int64_t at = identity_threshold(id->pki);
    pki_date_text(id->pki->not_after, until);
    if (at == 0)
        snprintf(buf, RDMAD_TEXT_MAX + 1,
                 "the certificate of %s has expired (%s): no other daemon talks to this one; "
                 "rdmactl cluster join gives it a new one",
                 id->pki->name, until);
    else if (at != INT64_MAX)
        snprintf(buf, RDMAD_TEXT_MAX + 1,
                 "the certificate of %s expires in %" PRId64 " days (%s) and was not renewed: "
                 "rdmactl cluster join gives it a new one",
                 id->pki->name, (id->pki->not_after - (int64_t)time(NULL)) / DAY, until);
    return buf;
}

static void identity_warn(struct identity *id) {
    char text[RDMAD_TEXT_MAX + 1];
    if (!id->pki)
        return;
    int64_t at = identity_threshold(id->pki);
    if (at >= id->warned_days)
        return;
    id->warned_days = at;
    LOG(WARNING, ("%s", identity_warning(id->state, text)));
}

/* ---- its life ------------------------------------------------------------------------------ */

static void identity_looks(struct timer *timer, uint64_t now_ns) {
    struct identity *id = container_of(timer, struct identity, look);
    struct error why;
    (void)identity_reload(id->state, false, &why);
    identity_warn(id);
    (void)timer_set(&id->state->timers, timer, clock_after(now_ns, IDENTITY_LOOK_NS));
}

int identity_start(struct state *st, const char *dir, void (*changed)(struct state *st),
                   struct error *err) {
    struct identity *id = calloc(1, sizeof(*id));
    if (!id)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for the identity");
    id->state = st;
    id->changed = changed;
    snprintf(id->dir, sizeof(id->dir), "%s", dir);
    timer_init(&id->look, identity_looks);
    st->identity = id;
    id->seen = identity_sum(id->dir);
    int rc = identity_load(id, err);
    if (rc)
        return rc;
    identity_said(id);
    identity_warn(id);
    if (timer_set(&st->timers, &id->look, clock_after(state_now(st), IDENTITY_LOOK_NS)))
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a timer");
    return 0;
}

void identity_stop(struct state *st) {
    struct identity *id = st->identity;
    st->identity = NULL;
    if (!id)
        return;
    timer_unset(&st->timers, &id->look);
    identity_drop(id);
    free(id);
}

/* ---- what it is ---------------------------------------------------------------------------- */

const struct pki_identity *identity_of(const struct state *st) {
    return st->identity ? st->identity->pki : NULL;
}

uint64_t identity_number(const struct state *st) {
    return st->identity ? st->identity->number : 0;
}

struct ssl_ctx_st *identity_tls(const struct state *st, bool accepts) {
    if (!st->identity)
        return NULL;
    return accepts ? st->identity->accepts : st->identity->dials;
}

const char *identity_dir(const struct state *st) {
    return st->identity ? st->identity->dir : "";
}
