/* SPDX-License-Identifier: MIT */
/*
 * options.c - the command line. It is parsed once and kept, since a reload lays it over the files
 * again.
 */
#include "daemon/options.h"
#include "common/runtime_dir.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: rdmad [OPTION]...\n"
    "Owns RDMA for the unprivileged processes of this machine. Runs in the foreground.\n"
    "\n"
    "  --config FILE           settings; FILE.d/*.json follow\n"
    "  --runtime-dir DIR       where rdmad.sock and control.sock live (default /run/rdmad,\n"
    "                          or $XDG_RUNTIME_DIR/rdmad of a user who may not write there)\n"
    "  --listen HOST:PORT      where other daemons reach this one (default 127.0.0.1:7471)\n"
    "  --identity DIR          this node's certificate and key, and whom it trusts\n"
    "  --require-rdma          refuse to start without RDMA hardware instead of using TCP\n"
    "  --log-level LEVEL       error, warning, notice, info or debug\n"
    "  --check-config          tell why it would not start, print nothing if it would\n"
    "  --print-config-reference  print every setting with its default, and exit\n"
    "  --version, --help\n"
    "\n"
    "SIGTERM drains and stops, SIGHUP reads the settings again. See rdmad(8), rdmad.json(5).\n";

enum {
    OPT_CONFIG = 256,
    OPT_DIR,
    OPT_LISTEN,
    OPT_IDENTITY,
    OPT_RDMA,
    OPT_LEVEL,
    OPT_CHECK,
    OPT_PRINT,
    OPT_VERSION
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"runtime-dir", required_argument, NULL, OPT_DIR},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"identity", required_argument, NULL, OPT_IDENTITY},
    {"require-rdma", no_argument, NULL, OPT_RDMA},
    {"log-level", required_argument, NULL, OPT_LEVEL},
    {"check-config", no_argument, NULL, OPT_CHECK},
    {"print-config-reference", no_argument, NULL, OPT_PRINT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static enum options_verdict options_usage(void) {
    fputs("Try 'rdmad --help'.\n", stderr);
    return OPTIONS_EXIT_USAGE;
}

enum options_verdict options_parse(struct options *o, int argc, char **argv) {
    *o = (struct options){.argv = argv};
    for (;;) {
        switch (getopt_long(argc, argv, "h", long_options, NULL)) {
        case OPT_CONFIG:
            o->config_file = optarg;
            break;
        case OPT_DIR:
            o->runtime_dir = optarg;
            break;
        case OPT_LISTEN:
            o->listen = optarg;
            break;
        case OPT_IDENTITY:
            o->identity = optarg;
            break;
        case OPT_RDMA:
            o->require_rdma = true;
            break;
        case OPT_LEVEL:
            o->log_level = optarg;
            break;
        case OPT_CHECK:
            o->check_config = true;
            break;
        case OPT_PRINT:
            o->print_config = true;
            break;
        case OPT_VERSION:
            puts("rdmad " RDMAD_VERSION);
            return OPTIONS_EXIT_OK;
        case 'h':
            fputs(usage, stdout);
            return OPTIONS_EXIT_OK;
        case -1:
            if (optind == argc)
                return OPTIONS_RUN;
            fprintf(stderr, "rdmad: unexpected argument '%s'\n", argv[optind]);
            return options_usage();
        default: /* getopt has said what */
            return options_usage();
        }
    }
}

static int override(struct config *c, const char *key, const char *value, const char *option,
                    struct config_places *places, struct error *err) {
    struct error why;
    if (!value)
        return RDMAD_OK;
    config_set_at(places, key, option);
    if (!config_set(c, key, value, &why))
        return RDMAD_OK;
    return error_set(err, why.code, "%s: %s", option, why.text);
}

/* The directory of a user who may not write to the machine's. */
static const char *own_dir(const struct config *c, char buf[RDMAD_RUNTIME_DIR_MAX]) {
    bool machines = !strcmp(c->runtime_dir, RDMAD_RUNTIME_DIR);
    if (!machines || geteuid() == 0 || !access(RDMAD_RUNTIME_DIR, W_OK))
        return NULL;
    return rdmad_user_dir(buf);
}

int options_load(const struct options *o, struct config *out, struct config_places *places,
                 struct error *err) {
    char own[RDMAD_RUNTIME_DIR_MAX];
    config_defaults(out);
    int rc = config_load(out, o->config_file, places, err);
    if (!rc && o->runtime_dir)
        rc = override(out, "runtime_dir", o->runtime_dir, "--runtime-dir", places, err);
    else if (!rc)
        rc = override(out, "runtime_dir", own_dir(out, own), "XDG_RUNTIME_DIR", places, err);
    if (!rc)
        rc = override(out, "listen", o->listen, "--listen", places, err);
    if (!rc)
        rc = override(out, "identity.dir", o->identity, "--identity", places, err);
    if (!rc)
        rc = override(out, "log_level", o->log_level, "--log-level", places, err);
    if (!rc && o->require_rdma) {
        out->require_rdma = true;
        rc = config_check(out, err);
    }
    return rc;
}

/* The machine's identity is the machine's daemon's. One without settings, of a user who may not
 * look at that identity, is another: it has its own, in its runtime directory, or none. */
const char *options_identity_dir(const struct options *o, const struct config *c,
                                 char buf[PKI_PATH_MAX]) {
    if (c->identity_dir[0])
        return c->identity_dir;
    const char *dir = pki_default_dir(o->config_file, buf);
    if (!o->config_file && access(dir, R_OK | X_OK) && errno == EACCES)
        snprintf(buf, PKI_PATH_MAX, "%s/identity", c->runtime_dir);
    return dir;
}

int options_check(const struct options *o, struct config *out, struct error *err) {
    struct config_places *places = config_places_new();
    config_defaults(out);
    if (!places)
        return error_set(err, RDMAD_E_NOMEM, "out of memory to check the settings");
    int rc = options_load(o, out, places, err);
    if (!rc)
        rc = config_check_machine(out, places, err);
    free(places);
    return rc;
}
