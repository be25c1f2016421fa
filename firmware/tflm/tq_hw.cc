/* The custom operator "tq-hw": its options are a compiled file, its inputs and outputs those of the program. */
#include "tq_hw.h"

#include "tensorflow/lite/kernels/kernel_util.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/micro/micro_context.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflite {
namespace {

const TqHwDevice* device = nullptr;
/* Bytes of the device's memory that parts have taken. */
uint32_t used_bytes = 0;

struct OpData {
  tq_model model;
  const void* file;
  size_t file_bytes;
  uint32_t most_cycles;
  int stored; /* scratch buffer for the integers of float32 inputs and outputs, or -1 */
};

TfLiteStatus Check(tq_status status) {
  if (status == TQ_OK) {
    return kTfLiteOk;
  }
  MicroPrintf("tq-hw: %s", tq_text(status));
  return kTfLiteError;
}

uint32_t Word(const void* file, uint32_t offset) {
  const uint8_t* bytes = static_cast<const uint8_t*>(file) + offset;
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

uint32_t Elements(const tq_tensor& tensor) {
  uint32_t count = 1;
  for (uint32_t axis = 0; axis < tensor.rank; axis++) {
    count *= tensor.shape[axis];
  }
  return count;
}

void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  void* memory = context->AllocatePersistentBuffer(context, sizeof(OpData));
  if (memory != nullptr) {
    OpData* data = static_cast<OpData*>(memory);
    data->model.bus = nullptr;
    data->file = buffer;
    data->file_bytes = length;
    data->stored = -1;
  }
  return memory;
}

bool IsLike(const TfLiteTensor& found, const tq_tensor& expected) {
  /* Indexed by TQ_DTYPE_... */
  static const TfLiteType types[] = {kTfLiteInt8,  kTfLiteUInt8,   kTfLiteInt16, kTfLiteInt32,
                                     kTfLiteInt64, kTfLiteFloat32, kTfLiteBool};
  if (found.type != (expected.edge == TQ_EDGE_NONE ? types[expected.dtype] : kTfLiteFloat32) ||
      found.dims == nullptr || found.dims->size != static_cast<int>(expected.rank)) {
    return false;
  }
  for (uint32_t axis = 0; axis < expected.rank; axis++) {
    if (found.dims->data[axis] < 0 || static_cast<uint32_t>(found.dims->data[axis]) != expected.shape[axis]) {
      return false;
    }
  }
  return true;
}

TfLiteStatus CheckTensor(const TfLiteTensor* found, const tq_tensor& expected, bool* has_edge) {
  if (found == nullptr || !IsLike(*found, expected)) {
    MicroPrintf("tq-hw: tensor %s is not that of the program: its type and its shape are fixed", expected.name);
    return kTfLiteError;
  }
  *has_edge = *has_edge || expected.edge != TQ_EDGE_NONE;
  return kTfLiteOk;
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  OpData* data = static_cast<OpData*>(node->user_data);
  TF_LITE_ENSURE(context, data != nullptr);
  if (device == nullptr) {
    MicroPrintf("tq-hw: call SetTqHwDevice before the tensors are allocated");
    return kTfLiteError;
  }
  tq_model* model = &data->model;
  const uint32_t memory_bytes = device->memory_bytes / TQ_ALIGN * TQ_ALIGN;
  TF_LITE_ENSURE_STATUS(Check(tq_open(model, device->bus, data->file, data->file_bytes, device->memory + used_bytes,
                                      memory_bytes - used_bytes)));
  data->most_cycles = device->most_cycles;
  const uint32_t end = model->bases[2] - device->memory + Word(data->file, TQ_FILE_STATE_BYTES);
  used_bytes = (end + TQ_ALIGN - 1u) / TQ_ALIGN * TQ_ALIGN;

  TF_LITE_ENSURE_EQ(context, static_cast<uint32_t>(node->inputs->size), model->input_count);
  TF_LITE_ENSURE_EQ(context, static_cast<uint32_t>(node->outputs->size), model->output_count);
  MicroContext* micro_context = GetMicroContext(context);
  size_t stored_bytes = 0;
  for (uint32_t i = 0; i < model->input_count + model->output_count; i++) {
    const tq_tensor& tensor = model->tensors[i];
    const bool is_input = i < model->input_count;
    TfLiteTensor* found =
        is_input ? micro_context->AllocateTempInputTensor(node, static_cast<int>(i))
                 : micro_context->AllocateTempOutputTensor(node, static_cast<int>(i - model->input_count));
    bool has_edge = false;
    const TfLiteStatus status = CheckTensor(found, tensor, &has_edge);
    if (found != nullptr) {
      micro_context->DeallocateTempTfLiteTensor(found);
    }
    TF_LITE_ENSURE_STATUS(status);
    if (has_edge && tensor.bytes > stored_bytes) {
      stored_bytes = tensor.bytes;
    }
  }
  if (stored_bytes > 0) {
    TF_LITE_ENSURE_STATUS(context->RequestScratchBufferInArena(context, stored_bytes, &data->stored));
  }
  return kTfLiteOk;
}

TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  OpData* data = static_cast<OpData*>(node->user_data);
  tq_model* model = &data->model;
  void* stored = data->stored < 0 ? nullptr : context->GetScratchBuffer(context, data->stored);
  for (uint32_t i = 0; i < model->input_count; i++) {
    const tq_tensor& tensor = model->inputs[i];
    const TfLiteEvalTensor* input = micro::GetEvalInput(context, node, static_cast<int>(i));
    const void* bytes = input->data.raw;
    if (tensor.edge != TQ_EDGE_NONE) {
      TF_LITE_ENSURE_STATUS(Check(tq_quantize(&tensor, micro::GetTensorData<float>(input), stored, Elements(tensor))));
      bytes = stored;
    }
    TF_LITE_ENSURE_STATUS(Check(tq_write(model, &tensor, bytes, tensor.bytes)));
  }
  TF_LITE_ENSURE_STATUS(Check(tq_run(model, data->most_cycles)));
  for (uint32_t i = 0; i < model->output_count; i++) {
    const tq_tensor& tensor = model->outputs[i];
    TfLiteEvalTensor* output = micro::GetEvalOutput(context, node, static_cast<int>(i));
    const bool has_edge = tensor.edge != TQ_EDGE_NONE;
    void* bytes = has_edge ? stored : output->data.raw;
    TF_LITE_ENSURE_STATUS(Check(tq_read(model, &tensor, bytes, tensor.bytes)));
    if (has_edge) {
      TF_LITE_ENSURE_STATUS(
          Check(tq_dequantize(&tensor, stored, micro::GetTensorData<float>(output), Elements(tensor))));
    }
  }
  return kTfLiteOk;
}

/* The interpreter resets its variables, so the state of the program is reset as well, if there is one. */
void Reset(TfLiteContext* context, void* buffer) {
  (void)context;
  OpData* data = static_cast<OpData*>(buffer);
  if (data != nullptr && data->model.bus != nullptr) {
    (void)Check(tq_reset_state(&data->model));
  }
}

}  // namespace

void SetTqHwDevice(const TqHwDevice* chosen) {
  device = chosen;
  used_bytes = 0;
}

TFLMRegistration* Register_TQ_HW() {
  static TFLMRegistration registration = micro::RegisterOp(Init, Prepare, Invoke, nullptr, Reset);
  return &registration;
}

const char* GetString_TQ_HW() { return "tq-hw"; }

}  // namespace tflite
