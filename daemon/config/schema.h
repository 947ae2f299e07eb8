/* SPDX-License-Identifier: MIT */
/*
 * schema.h - the table that describes every setting once: for the files of config/, and for
 * settings.c, which reloads by it.
 */
#ifndef RDMAD_CONFIG_SCHEMA_H
#define RDMAD_CONFIG_SCHEMA_H

#include "daemon/config/config.h"
#include <stddef.h>

enum setting_type { SETTING_BOOL, SETTING_NUMBER, SETTING_TEXT };

struct setting {
    const char *key; /* "section.name" or "name"; a section's settings stand together */
    enum setting_type type;
    size_t offset, size; /* of the field in struct config; size counts a text's NUL */
    uint64_t min, max;   /* numbers */
    uint64_t number;     /* default of a number or a bool */
    const char *text;    /* default of a text */
    const char *(*check)(const char *text); /* of a text: NULL, or what is wrong; may be NULL */
    const char *unit;                       /* "" when there is none */
    const char *help;
    bool restart; /* a change takes effect only at the next start */
};

extern const struct setting settings[];
extern const size_t settings_count;

const struct setting *setting_find(const char *key);
/* Whether some key starts with "section." */
bool setting_is_section(const char *section);
/* The known key most like key; NULL when none is close. */
const char *setting_nearest(const char *key);

bool *setting_bool(const struct setting *s, struct config *c);
uint64_t *setting_number(const struct setting *s, struct config *c);
char *setting_text(const struct setting *s, struct config *c);

/* Store a value after checking it against the table. 0 or RDMAD_E_CONFIG; the sentence names the
 * key and what is allowed, not the place. */
int setting_store_number(const struct setting *s, struct config *c, uint64_t value,
                         struct error *err);
/* The refusal of a number. */
int setting_number_error(const struct setting *s, int64_t value, struct error *err);
int setting_store_text(const struct setting *s, struct config *c, const char *value,
                       struct error *err);

struct config_places {
    size_t unused;
    char at[][400]; /* by the setting's place in the table */
};
void config_place(struct config_places *places, const struct setting *s, const char *place);

/* As config_parse, but c may be half changed on failure and is not checked as a whole. */
int config_parse_over(struct config *c, const char *name, const char *text, size_t size,
                      struct config_places *places, struct error *err);

/* What config_load and config_parse begin and end with: rules are read into a copy of the settings,
 * which takes the place of c's only if nothing failed; else they are freed. */
int config_begin(struct config *copy, struct error *err);
int config_finish(struct config *c, struct config *copy, int failed, struct error *err);

#endif
