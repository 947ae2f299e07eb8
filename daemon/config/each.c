/* SPDX-License-Identifier: MIT */
/*
 * each.c - the settings as they are, key by key, for whoever shows them.
 */
#include "daemon/base/json_memory.h"
#include "daemon/config/schema.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

void config_each(const struct config *c,
                 void (*each)(void *arg, const char *key, const char *literal), void *arg) {
    struct config copy = *c; /* the table's accessors also write */
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        char number[24];
        if (s->type == SETTING_BOOL) {
            each(arg, s->key, *setting_bool(s, &copy) ? "true" : "false");
        } else if (s->type == SETTING_NUMBER) {
            snprintf(number, sizeof(number), "%" PRIu64, *setting_number(s, &copy));
            each(arg, s->key, number);
        } else {
            json_t *text = json_string(setting_text(s, &copy));
            char *literal = json_dumps(text, JSON_ENCODE_ANY);
            each(arg, s->key, literal ? literal : "null");
            json_memory_give(literal);
            json_decref(text);
        }
    }
}
