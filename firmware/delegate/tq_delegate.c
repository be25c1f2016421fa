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
    uint32_t most_cycles;
    struct kernel *loaded; /* those in its memory, in the order of their addresses */
} device;

typedef struct kernel {
    device *on;
    struct kernel *next;
    uint32_t place, end; /* bytes of the device's memory, while it is loaded */
    int is_loaded;
    tq_model model;
    const void *file;
    size_t file_bytes;
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

/* Free the device's memory of a kernel that is loaded. */
static void unload(kernel *one)
{
    if (!one->is_loaded)
        return;
    kernel **link = &one->on->loaded;
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    one->is_loaded = 0;
}

/* Open a program in the first gap between others that is large enough. */
static tq_status load(kernel *one)
{
    const tq_port *port = &one->on->port;
    uint32_t place = 0;
    for (kernel **link = &one->on->loaded;; link = &(*link)->next) {
        const uint32_t end = *link ? (*link)->place : port->memory_bytes & ~(TQ_ALIGN - 1u);
        const tq_status status =
            tq_open(&one->model, &port->bus, one->file, one->file_bytes, port->memory + place, end - place);
        if (status == TQ_OK) {
            one->place = place;
            one->end = (one->model.bases[2] - port->memory + word(one->file, TQ_FILE_STATE_BYTES) + TQ_ALIGN - 1u)
                       & ~(TQ_ALIGN - 1u);
            one->next = *link;
            one->is_loaded = 1;
            *link = one;
        }
        if (status != TQ_NO_MEMORY || !*link)
            return status;
        place = (*link)->end;
    }
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
    return one;
}

static void kernel_free(TfLiteContext *context, void *buffer)
{
    kernel *one = buffer;
    (void)context;
    if (one) {
        unload(one);
        free(one->stored);
    }
    free(one);
}

static int is_like(const TfLiteTensor *found, const tq_tensor *expected)
{
    /* Indexed by TQ_DTYPE_... */
    static const TfLiteType types[] = {kTfLiteInt8,  kTfLiteUInt8,   kTfLiteInt16, kTfLiteInt32,
                                       kTfLiteInt64, kTfLiteFloat32, kTfLiteBool};
    if (found->type != (expected->edge == TQ_EDGE_NONE ? types[expected->dtype] : kTfLiteFloat32) || !found->dims
        || found->dims->size != (int)expected->rank)
        return 0;
    for (uint32_t axis = 0; axis < expected->rank; axis++)
        if (found->dims->data[axis] < 0 || (uint32_t)found->dims->data[axis] != expected->shape[axis])
            return 0;
    return 1;
}

/* Check a tensor of the model against the program's, which is stored in integers where the model's is float32. */
static TfLiteStatus check_tensor(TfLiteContext *context, int index, const tq_tensor *expected, size_t *stored_bytes)
{
    if (index < 0 || !is_like(&context->tensors[index], expected)) {
        TF_LITE_KERNEL_LOG(context, "tq-hw: tensor %s is not that of the program: its type and its shape are fixed",
                           expected->name);
        return kTfLiteError;
    }
    if (expected->edge != TQ_EDGE_NONE && expected->bytes > *stored_bytes)
        *stored_bytes = expected->bytes;
    return kTfLiteOk;
}

static TfLiteStatus kernel_prepare(TfLiteContext *context, TfLiteNode *node)
{
    kernel *one = node->user_data;
    size_t stored_bytes = 0;
    if (!one)
        return kTfLiteError;
    const tq_model *model = &one->model;
    unload(one);
    TF_LITE_ENSURE_STATUS(check(context, one, load(one)));
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

static int has(const TfLiteIntArray *all, int index)
{
    for (int at = 0; at < all->size; at++)
        if (all->data[at] == index)
            return 1;
    return 0;
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
        /* An output that nothing reads has no memory. */
        if (!has(node->outputs, one->outputs->data[i]))
            continue;
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

/* One kernel for each operator: a tensor between two operators of a kernel would have no memory. */
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

EXPORT TfLiteDelegate *tflite_plugin_create_delegate(const char *const *keys, const char *const *values, size_t count,
                                                     void (*report_error)(const char *))
{
    char why[TQ_PATH_BYTES + 128u], message[sizeof why + 8u];
    device *one = calloc(1, sizeof *one);
    snprintf(why, sizeof why, "there is no memory");
    if (!one || tq_port_open(&one->port, keys, values, count, &one->most_cycles, why, sizeof why)) {
        snprintf(message, sizeof message, "tq-hw: %s", why);
        if (report_error)
            report_error(message);
        free(one);
        return NULL;
    }
    one->delegate.data_ = one;
    one->delegate.Prepare = prepare;
    /* Without it LiteRT first prepares all operators to find dynamic tensors, and has no kernel for CUSTOM_NAME. */
    one->delegate.flags = kTfLiteDelegateFlagsAllowDynamicTensors;
    return &one->delegate;
}

EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate *delegate)
{
    if (delegate) {
        device *one = delegate->data_;
        while (one->loaded)
            unload(one->loaded);
        tq_port_close(&one->port);
        free(one);
    }
}
