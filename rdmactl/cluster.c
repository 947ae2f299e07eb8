/* SPDX-License-Identifier: MIT */
#include "rdmactl/cluster.h"
#include "common/errors.h"
#include "common/runtime_dir.h"
#include "common/uri.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool same_directory(const char *one, const char *other) {
    char *a = realpath(one, NULL), *b = realpath(other, NULL);
    bool same = !strcmp(one, other) || (a && b && !strcmp(a, b));
    free(a);
    free(b);
    return same;
}

/* A daemon that listens everywhere, on any port, or on loopback has no address that others could be
 * told. */
static void take_listen(const json_t *listen, struct cluster_place *out) {
    const char *host = json_string_value(json_object_get(listen, "host"));
    json_int_t port = json_integer_value(json_object_get(listen, "port"));
    out->port = port > 0 && port <= UINT16_MAX ? (unsigned)port : 0;
    out->loopback = host && cli_is_loopback(host);
    if (host && out->port && !out->loopback && strcmp(host, "0.0.0.0") != 0 &&
        strcmp(host, "::") != 0)
        rdmad_hostport_print(host, (uint16_t)port, out->address, sizeof(out->address));
}

/* Where a daemon would look: one of the service's settings, or one by hand, without any. */
static const char *default_dir(char buf[PKI_PATH_MAX]) {
    return pki_default_dir(access(RDMAD_CONFIG_FILE, F_OK) ? NULL : RDMAD_CONFIG_FILE, buf);
}

/* Where the one daemon is that reads what default_dir() says. */
static bool is_main_instance(void) {
    return same_directory(cli.dir, RDMAD_RUNTIME_DIR);
}

static void take_daemon(const json_t *status, struct cluster_place *out) {
    const char *node = json_string_value(json_object_get(status, "node"));
    snprintf(out->node, sizeof(out->node), "%s", node ? node : "");
    take_listen(json_object_get(status, "listen"), out);
    out->pid = (int)json_integer_value(json_object_get(json_object_get(status, "process"), "pid"));
}

int cluster_find(const char *identity, struct cluster_place *out) {
    struct failure why;
    char otherwise[PKI_PATH_MAX];
    *out = (struct cluster_place){0};
    json_t *status = daemon_try("status", NULL, PATIENCE_LOOK_MS, &why);
    const char *theirs =
        json_string_value(json_object_get(json_object_get(status, "identity"), "dir"));
    bool has_one = theirs && *theirs;
    /* Of a daemon that does not say which is its own, no other is taken for it. */
    bool none_runs = !status && !strcmp(why.code, "RDMAD_E_NO_DAEMON");
    if (!identity && !has_one && !(none_runs && is_main_instance())) {
        const char *text = status ? "rdmad does not tell its identity directory" : why.text;
        const char *code = status ? "RDMAD_E_UNSUPPORTED" : why.code;
        json_decref(status);
        return cli_fail(code, "%s; or name the identity directory by --identity DIR", text);
    }
    snprintf(out->dir, sizeof(out->dir), "%s",
             identity  ? identity
             : has_one ? theirs
                       : default_dir(otherwise));
    out->daemon = has_one && same_directory(out->dir, theirs);
    if (out->daemon)
        take_daemon(status, out);
    json_decref(status);
    return EXIT_GOOD;
}

int cluster_fail(const struct cluster_place *place, int rc, const struct pki_error *err) {
    if (rc == PKI_NOT_THERE)
        return cli_fail("RDMAD_E_CONFIG",
                        "%s has no identity; rdmactl cluster init makes a cluster and its first "
                        "node, rdmactl cluster join HOST:PORT TOKEN joins one",
                        place->dir);
    return cli_fail(rdmad_error_name(rc), "%s", err->text);
}

const char *cluster_reload(const struct cluster_place *place, char *buf, size_t size) {
    struct failure why;
    if (!place->daemon)
        return "";
    json_t *result = daemon_try("reload", NULL, PATIENCE_ACT_MS, &why);
    if (result) {
        json_decref(result);
        return NULL;
    }
    snprintf(buf, size, "%s", why.text);
    return buf;
}

void cluster_report_reload(const char *outcome, json_t *doc) {
    if (doc) {
        json_object_set_new(doc, "reloaded", json_boolean(!outcome));
        if (outcome && *outcome)
            json_object_set_new(doc, "reload_error", json_string(outcome));
    } else if (outcome && *outcome) {
        cli_note("the files are changed, but rdmad has not taken them up: %s", outcome);
    }
}

/* As its process sees it, which need not be as we do. */
static bool is_read_only(const struct cluster_place *place) {
    char whole[64 + PKI_PATH_MAX], *dir = realpath(place->dir, NULL);
    struct statvfs fs;
    snprintf(whole, sizeof(whole), "/proc/%d/root%s", place->pid, dir ? dir : "");
    bool found = place->pid > 0 && dir && !statvfs(whole, &fs);
    free(dir);
    return found && (fs.f_flag & ST_RDONLY);
}

void cluster_warn_read_only(const struct cluster_place *place) {
    if (is_read_only(place))
        cli_note("rdmad may not write in %s: if that was not there when its service started, "
                 "restart it, or its certificate is never renewed",
                 place->dir);
}

void cluster_warn_loopback(const struct cluster_place *place, const char *given) {
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    bool meant = given && !rdmad_hostport_parse(given, host, &port) && cli_is_loopback(host);
    if (place->loopback && !meant)
        cli_note("this daemon listens on loopback only: set \"listen\" to HOST:PORT in rdmad.json "
                 "and restart it before others join");
}

int cluster_own_name(const struct cluster_place *place, const char *given,
                     char out[RDMAD_NAME_MAX + 1]) {
    char host[RDMAD_HOST_MAX + 1] = "";
    (void)gethostname(host, sizeof(host) - 1);
    const char *name = given ? given : place->node[0] ? place->node : host;
    if (!rdmad_name_ok(name))
        return cli_usage_error("\"%s\" cannot be a node's name (letters, digits, '.', '_' and '-', "
                               "63 at most, not starting with '.'); give one by --name",
                               name);
    snprintf(out, RDMAD_NAME_MAX + 1, "%.*s", (int)RDMAD_NAME_MAX, name);
    return ARGS_RUN;
}
