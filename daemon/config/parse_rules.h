/* SPDX-License-Identifier: MIT */
/*
 * parse_rules.h - the sections "policy" and "sockets" of a file. Internal to config/.
 */
#ifndef RDMAD_CONFIG_PARSE_RULES_H
#define RDMAD_CONFIG_PARSE_RULES_H

#include "daemon/config/place.h"
#include "daemon/config/rules.h"

/* Reads the section's value into p->config->rules. 0, or RDMAD_E_* and p->err. */
typedef int rules_parse(const struct parse *p, const struct text_path *at, json_t *value);

/* How a section of that name is read; NULL: it is none of rules. */
rules_parse *rules_section(const char *key);

#endif
