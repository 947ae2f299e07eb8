/* SPDX-License-Identifier: MIT */
/*
 * survey.h - asks the RDMA devices of this machine what they are, writes it down in the words of
 * fabric/device.h, and has choice.c choose.
 */
#ifndef RDMAD_FABRIC_VERBS_DEVICE_SURVEY_H
#define RDMAD_FABRIC_VERBS_DEVICE_SURVEY_H

#include "daemon/fabric/verbs/device/choice.h"
#include <infiniband/verbs.h>

void survey_listen(const struct fabric_settings *settings, struct listen_gids *out);
/* Looks at all devices and chooses. */
int survey_all(const struct wish *wish, struct device_list **out, struct error *err);
/* One port of an open device, chosen as if it were the only one. */
int survey_open_port(struct ibv_context *context, unsigned port, const struct wish *wish,
                     struct device_list **out, struct error *err);

#endif
