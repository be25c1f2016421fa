/* LiteRT's external delegate: the custom operators "tq-hw" of a model run on an accelerator.
 *
 * Options: "port", the serial port of a board or of `tq-hw emulate`, with "baud" (1000000); or "uio" and "udmabuf", the
 * devices of an accelerator in this processor's address space; and "seconds" (60), after which a run is stopped.
 * Each operator is a kernel of its own: its options are a compiled file, which is loaded when tensors are allocated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include) && __has_include("tflite/c/common.h")
#include "tflite/c/common.h"
#else
#include "tensorflow/lite/c/common.h"
#endif

#include "tq_port.h"

#define EXPORT __attribute__((visibility("default")))
#define CUSTOM_NAME "tq-hw"

TfLiteDelegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                              void (*report_error)(const char *));
void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate);

typedef struct device {
    TfLiteDelegate delegate;
    tq_port port;
    uint32_t used_bytes; /* of the memory, by all kernels */
    uint32_t most_cycles;
} device;

typedef struct kernel {
    device *on;
    tq_model model;
    const void *file;
    size_t file_bytes;
    uint32_t place; /* in the device's memory, TQ_ALIGN - 1 until it has one */
    const TfLiteIntArray *inputs, *outputs;
    void *stored; /* the integers of one float32 input or output */
} kernel;

static TfLiteStatus check(TfLiteContext *context, const kernel *one, tq_status status)
{
    if (status == TQ_OK)
        return kTfLiteOk;
    if (status == TQ_STOPPED)
        TF_LITE_KERNEL_LOG(context, "tq-hw: %s: error %u of unit %u at RUN %u", tq_text(status), one->model.error_code,
                           one->model.error_unit, one->model.error_index);
    else
        TF_LITE_KERNEL_LOG(context, "tq-hw: %s", tq_text(status));
    return kTfLiteError;
}

static uint32_t word(const void *file, uint32_t offset)
{
    const uint8_t *bytes = (const uint8_t *)file + offset;
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint32_t elements(const tq_tensor *tensor)
{
    uint32_t count = 1;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        count *= tensor->shape[axis];
    return count;
}

static void *kernel_init(TfLiteContext *context, const char *buffer, size_t length)
{
    const TfLiteDelegateParams *params = (const TfLiteDelegateParams *)(const void *)buffer;
    TfLiteNode *node = NULL;
    TfLiteRegistration *registration = NULL;
    kernel *one = calloc(1, sizeof *one);
    (void)length;
    if (!one || context->GetNodeAndRegistration(context, params->nodes_to_replace->data[0], &node, &registration)
        != kTfLiteOk) {
        free(one);
        return NULL;
    }
    one->on = params->delegate->data_;
    one->file = node->custom_initial_data;
    one->file_bytes = (size_t)node->custom_initial_data_size;
    one->inputs = node->inputs;
    one->outputs = node->outputs;
    one->place = TQ_ALIGN - 1u;
    return one;
}

static void kernel_free(TfLiteContext *context, void *buffer)
{
    kernel *one = buffer;
    (void)context;
    if (one)
        free(one->stored);
    free(one);
}

/* A tensor of the model: what the operator's own one has, float32 where the program's is stored in integers. */
static TfLiteStatus check_tensor(TfLiteContext *context, int index, const tq_tensor *expected, size_t *stored_bytes)
{
    const int has_edge = expected->edge != TQ_EDGE_NONE;
    const TfLiteTensor *found = &context->tensors[index];
    const size_t wanted = has_edge ? sizeof(float) * elements(expected) : expected->bytes;
    if (found->bytes != wanted || (has_edge && found->type != kTfLiteFloat32)) {
        TF_LITE_KERNEL_LOG(context, "tq-hw: tensor %s is not that of the program", expected->name);
        return kTfLiteError;
    }
    if (has_edge && expected->bytes > *stored_bytes)
        *stored_bytes = expected->bytes;
    return kTfLiteOk;
}

static TfLiteStatus kernel_prepare(TfLiteContext *context, TfLiteNode *node)
{
    kernel *one = node->user_data;
    size_t stored_bytes = 0;
    if (!one)
        return kTfLiteError;
    tq_model *model = &one->model;
    device *on = one->on;
    const int is_new = one->place % TQ_ALIGN != 0;
    const uint32_t place = is_new ? on->used_bytes : one->place;
    TF_LITE_ENSURE_STATUS(check(context, one, tq_open(model, &on->port.bus, one->file, one->file_bytes,
                                                      on->port.memory + place, on->port.memory_bytes - place)));
    if (is_new) {
        const uint32_t end = model->bases[2] - on->port.memory + word(one->file, TQ_FILE_STATE_BYTES);
        one->place = place;
        on->used_bytes = end > on->port.memory_bytes - TQ_ALIGN ? on->port.memory_bytes
                                                                : (end + TQ_ALIGN - 1u) / TQ_ALIGN * TQ_ALIGN;
    }
    TF_LITE_ENSURE_EQ(context, one->inputs->size, (int)model->input_count);
    TF_LITE_ENSURE_EQ(context, one->outputs->size, (int)model->output_count);
    for (uint32_t i = 0; i < model->input_count; i++)
        TF_LITE_ENSURE_STATUS(check_tensor(context, one->inputs->data[i], &model->inputs[i], &stored_bytes));
    for (uint32_t i = 0; i < model->output_count; i++)
        TF_LITE_ENSURE_STATUS(check_tensor(context, one->outputs->data[i], &model->outputs[i], &stored_bytes));
    free(one->stored);
    one->stored = stored_bytes ? malloc(stored_bytes) : NULL;
    return stored_bytes && !one->stored ? kTfLiteError : kTfLiteOk;
}

static TfLiteStatus kernel_invoke(TfLiteContext *context, TfLiteNode *node)
{
    kernel *one = node->user_data;
    tq_model *model = &one->model;
    for (uint32_t i = 0; i < model->input_count; i++) {
        const tq_tensor *tensor = &model->inputs[i];
        const TfLiteTensor *outer = &context->tensors[one->inputs->data[i]];
        const void *bytes = outer->data.raw;
        if (tensor->edge != TQ_EDGE_NONE) {
            TF_LITE_ENSURE_STATUS(
                check(context, one, tq_quantize(tensor, outer->data.f, one->stored, elements(tensor))));
            bytes = one->stored;
        }
        TF_LITE_ENSURE_STATUS(check(context, one, tq_write(model, tensor, bytes, tensor->bytes)));
    }
    TF_LITE_ENSURE_STATUS(check(context, one, tq_run(model, one->on->most_cycles)));
    for (uint32_t i = 0; i < model->output_count; i++) {
        const tq_tensor *tensor = &model->outputs[i];
        TfLiteTensor *outer = &context->tensors[one->outputs->data[i]];
        const int has_edge = tensor->edge != TQ_EDGE_NONE;
        void *bytes = has_edge ? one->stored : (void *)outer->data.raw;
        TF_LITE_ENSURE_STATUS(check(context, one, tq_read(model, tensor, bytes, tensor->bytes)));
        if (has_edge)
            TF_LITE_ENSURE_STATUS(
                check(context, one, tq_dequantize(tensor, one->stored, outer->data.f, elements(tensor))));
    }
    return kTfLiteOk;
}

/* One kernel for each operator: tensors between two of a kernel would have no memory. */
static TfLiteStatus prepare(TfLiteContext *context, TfLiteDelegate *delegate)
{
    TfLiteIntArray *shown = NULL;
    TF_LITE_ENSURE_STATUS(context->GetExecutionPlan(context, &shown));
    const int count = shown->size;
    int *plan = malloc(sizeof *plan * (size_t)(count + 1));
    TfLiteIntArray *chosen = malloc(sizeof *chosen + sizeof(int));
    TfLiteStatus status = plan && chosen ? kTfLiteOk : kTfLiteError;
    if (status == kTfLiteOk)
        memcpy(plan, shown->data, sizeof *plan * (size_t)count);
    const TfLiteRegistration registration = {.init = kernel_init, .free = kernel_free, .prepare = kernel_prepare,
                                             .invoke = kernel_invoke, .custom_name = "tq-hw delegate", .version = 1};
    for (int at = 0; at < count && status == kTfLiteOk; at++) {
        TfLiteNode *node = NULL;
        TfLiteRegistration *found = NULL;
        status = context->GetNodeAndRegistration(context, plan[at], &node, &found);
        if (status == kTfLiteOk && found->custom_name && !strcmp(found->custom_name, CUSTOM_NAME)) {
            chosen->size = 1;
            chosen->data[0] = plan[at];
            status = context->ReplaceNodeSubsetsWithDelegateKernels(context, registration, chosen, delegate);
        }
    }
    free(chosen);
    free(plan);
    return status;
}

static const char *option(const char *const *keys, const char *const *values, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (!strcmp(keys[at], name))
            return values[at];
    return NULL;
}

static int is_known(const char *key)
{
    static const char *const known[] = {"port", "baud", "uio", "udmabuf", "seconds"};
    for (size_t at = 0; at < sizeof known / sizeof known[0]; at++)
        if (!strcmp(key, known[at]))
            return 1;
    return 0;
}

/* A whole number above 0 of an option, or of what stands for one that is absent; 0 for anything else. */
static unsigned long number(const char *text, unsigned long absent)
{
    char *end = NULL;
    const unsigned long found = text ? strtoul(text, &end, 10) : absent;
    return text && (*end || text[0] == '-') ? 0 : found;
}

static int open_port(device *one, const char *const *keys, const char *const *values, size_t count, char *why,
                     size_t why_bytes)
{
    const char *path = option(keys, values, count, "port"), *uio = option(keys, values, count, "uio");
    const char *buffer = option(keys, values, count, "udmabuf");
    const unsigned long baud = number(option(keys, values, count, "baud"), 1000000);
    const unsigned long seconds = number(option(keys, values, count, "seconds"), 60);
    for (size_t at = 0; at < count; at++)
        if (!is_known(keys[at])) {
            snprintf(why, why_bytes, "there is no option %s; options are port, baud, uio, udmabuf and seconds", keys[at]);
            return -1;
        }
    if ((path != NULL) == (uio != NULL) || !baud || !seconds) {
        snprintf(why, why_bytes, "%s", !baud || !seconds ? "baud and seconds are whole numbers above 0"
                                                         : "name port, or uio, and not both");
        return -1;
    }
    if (path ? tq_port_serial(&one->port, path, baud, why, why_bytes)
             : tq_port_uio(&one->port, uio, buffer ? buffer : "/dev/udmabuf0", why, why_bytes))
        return -1;
    const uint64_t cycles = (uint64_t)seconds * one->port.clock_hz;
    one->most_cycles = !cycles || seconds > 0xffffffffu || cycles > 0xffffffffu ? 0xffffffffu : (uint32_t)cycles;
    return 0;
}

EXPORT TfLiteDelegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                                     void (*report_error)(const char *))
{
    char why[TQ_PATH_BYTES + 128u], message[sizeof why + 8u];
    device *one = calloc(1, sizeof *one);
    snprintf(why, sizeof why, "there is no memory");
    if (!one || open_port(one, keys, values, count, why, sizeof why)) {
        snprintf(message, sizeof message, "tq-hw: %s", why);
        if (report_error)
            report_error(message);
        free(one);
        return NULL;
    }
    one->delegate.data_ = one;
    one->delegate.Prepare = prepare;
    /* Without it LiteRT prepares all operators first, to look for dynamic tensors, and finds none for CUSTOM_NAME. */
    one->delegate.flags = kTfLiteDelegateFlagsAllowDynamicTensors;
    return &one->delegate;
}

EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate)
{
    if (delegate) {
        device *one = delegate->data_;
        tq_port_close(&one->port);
        free(one);
    }
}
