/* SPDX-License-Identifier: MIT */
/*
 * checks.h - checks of text settings, for the table of schema.c: each returns NULL, or what is
 * wrong.
 */
#ifndef RDMAD_CONFIG_CHECKS_H
#define RDMAD_CONFIG_CHECKS_H

const char *setting_check_directory(const char *text);
const char *setting_check_absolute(const char *text);
const char *setting_check_listen(const char *text);
const char *setting_check_metrics(const char *text);
const char *setting_check_node_name(const char *text);
const char *setting_check_log_level(const char *text);
const char *setting_check_word(const char *text);
const char *setting_check_fabric(const char *text);
const char *setting_check_connect(const char *text);
const char *setting_check_encrypt(const char *text);
const char *setting_check_windows(const char *text);
const char *setting_check_gid(const char *text);
const char *setting_check_uids(const char *text);

#endif
