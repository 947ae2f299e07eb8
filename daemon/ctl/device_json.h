/* SPDX-License-Identifier: MIT */
/*
 * device_json.h - a survey of devices as device.show answers it. Internal to ctl/.
 */
#ifndef RDMAD_CTL_DEVICE_JSON_H
#define RDMAD_CTL_DEVICE_JSON_H

#include "daemon/fabric/device.h"
#include <jansson.h>
#include <stdbool.h>

/* An array with an object for each device. verbose: with "facts", what ibv_devinfo -v tells. */
json_t *device_list_json(const struct device_list *list, bool verbose);

#endif
