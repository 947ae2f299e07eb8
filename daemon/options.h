/* SPDX-License-Identifier: MIT */
/*
 * options.h - what the command line says. It is applied over the configuration file.
 */
#ifndef RDMAD_OPTIONS_H
#define RDMAD_OPTIONS_H

#include "daemon/config/config.h"
#include "pki/dir.h"

struct options {
    const char *config_file;                                 /* NULL: none */
    const char *runtime_dir, *listen, *identity, *log_level; /* NULL: as configured */
    bool require_rdma;
    bool check_config, print_config;
    char **argv; /* all of it, for the next life */
};

enum options_verdict { OPTIONS_RUN, OPTIONS_EXIT_OK, OPTIONS_EXIT_USAGE };

/* Parses argv. Prints help, the version or what is wrong by itself. */
enum options_verdict options_parse(struct options *o, int argc, char **argv);

/* Loads defaults, file and command line into *out. places may be NULL. */
int options_load(const struct options *o, struct config *out, struct config_places *places,
                 struct error *err);
/* Where the identity is, or would be. */
const char *options_identity_dir(const struct options *o, const struct config *c,
                                 char buf[PKI_PATH_MAX]);
/* The same, and also whether this machine has what is set. *out is to be freed (config_free),
 * whatever comes of it. */
int options_check(const struct options *o, struct config *out, struct error *err);

#endif
