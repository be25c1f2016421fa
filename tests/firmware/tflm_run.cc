/* Runs models with operators "tq-hw" in TFLite Micro, for test_tflm.py. */
#include <cstdint>
#include <cstring>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tq_hw.h"

alignas(16) static uint8_t arena[1 << 18];

/* Run `count` inferences in sequence on `inputs` (of all inferences, in order); the variables are reset before
* number `reset`. Returns 0, or the number of the step that failed. */
extern "C" int run(const void *file, const tq_bus *bus, uint32_t memory, uint32_t memory_bytes, int count, int reset,
                   const uint8_t *inputs, uint8_t *outputs)
{
    const tflite::TqHwDevice device = {bus, memory, memory_bytes, 10000000u};
    tflite::SetTqHwDevice(&device);
    tflite::MicroMutableOpResolver<1> resolver;
    if (resolver.AddCustom(tflite::GetString_TQ_HW(), tflite::Register_TQ_HW()) != kTfLiteOk)
        return 1;
    tflite::MicroInterpreter interpreter(tflite::GetModel(file), resolver, arena, sizeof arena);
    if (interpreter.AllocateTensors() != kTfLiteOk)
        return interpreter.Reset() == kTfLiteOk ? 2 : 5;
    for (int number = 0; number < count; number++) {
        if (number == reset && interpreter.Reset() != kTfLiteOk)
            return 3;
        for (size_t i = 0; i < interpreter.inputs_size(); i++) {
            memcpy(interpreter.input(i)->data.raw, inputs, interpreter.input(i)->bytes);
            inputs += interpreter.input(i)->bytes;
        }
        if (interpreter.Invoke() != kTfLiteOk)
            return 4;
        for (size_t i = 0; i < interpreter.outputs_size(); i++) {
            memcpy(outputs, interpreter.output(i)->data.raw, interpreter.output(i)->bytes);
            outputs += interpreter.output(i)->bytes;
        }
    }
    return 0;
}
