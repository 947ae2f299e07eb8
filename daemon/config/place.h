/* SPDX-License-Identifier: MIT */
/*
 * place.h - one file while it is read, and what is wrong in it with its place. Internal to config/.
 */
#ifndef RDMAD_CONFIG_PLACE_H
#define RDMAD_CONFIG_PLACE_H

#include "daemon/config/schema.h"
#include "daemon/config/text.h"
#include <jansson.h>

struct parse {
    const char *name; /* the file */
    struct text text;
    struct config *config;
    struct config_places *places; /* NULL: nobody asks */
    struct error *err;
};

/* "FILE:LINE:COLUMN", in buf. */
const char *parse_place(const struct parse *p, size_t at, char *buf, size_t size);

/* Each returns RDMAD_E_CONFIG, and sets "FILE:LINE:COLUMN: sentence". */
int parse_fail_key(const struct parse *p, const struct text_path *path, const char *sentence);
int parse_fail_value(const struct parse *p, const struct text_path *path, const char *sentence);
int parse_fail_at(const struct parse *p, size_t at, const char *sentence);
/* what: the key, as the sentence calls it. */
int parse_wrong_type(const struct parse *p, const struct text_path *path, const char *what,
                     const char *want, const json_t *value);

#endif
