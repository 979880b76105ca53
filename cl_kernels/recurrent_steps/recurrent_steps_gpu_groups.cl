// A recurrent network over sequences whose inputs are multiplied already, for GPUs: a group a direction of a sequence.
//
// Tensors as of recurrent_steps_lines.cl, float or half, dense, but for r, which has pitches; states and cells are kept as float
// in local memory.
// Grid: a group of ITEMS (default 64) work-items for each direction of a sequence; one makes units ITEMS apart. SIZE (default
// 64) is the room for hidden states, CELL (default 2) 0 for an RNN, 1 a GRU, 2 an LSTM.
// table: tokens, batch, H, whether the first direction is from the end, directions, linear before reset, coupled, the bits
// of the bound (0: none), pitches of r along directions, rows and states, then for each direction code and parameters of
// its activations.
// Error: H * 2^-24 * sum |r h| for each gate, and the activations', carried on by the network from token to token.
#include "tensor.clh"
#ifndef ITEMS
  #define ITEMS 64
#endif
#ifndef SIZE
  #define SIZE 64
#endif
#include "recurrent_cell.clh"

// What goes into gate g of unit j: of x, and of the states `with`.
#define AHEAD(g) (READ(in0, gates + (g) * size + j))
#define BIAS(g) READ_OR_0(bias, bias0 + (g) * size + j)
#define OF_STATES(g, with) of_states(r + ((g) * size + j) * table[9], table[10], with, size)
static float of_states(__global const T* r, const int pitch, __local const float* states, const int size) {
  float sum = 0.0f;
  for (int k = 0; k < size; k++) sum = fma(LOAD(r, k * pitch), states[k], sum);
  return sum;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void recurrent_steps_gpu_groups(
    TENSOR(in0), TENSOR(in1), TENSOR(bias), TENSOR(lengths), TENSOR(hidden), TENSOR(first), TENSOR(peephole),
    TENSOR(out0), TENSOR(out1), TENSOR(out2), __global const int* table) {
  __local float states[2][SIZE], aside[SIZE];
  const int tokens = table[0], batch = table[1], size = table[2];
  const int id = get_group_id(0), own = get_local_id(0), n = table[4] * batch;
  const int direction = id / batch, line = id % batch, bias0 = direction * GATES * size, peep = direction * 3 * size;
  const float limit = as_float(table[7]);
  __global const int* functions = table + 11 + direction * 3 * (CELL + 1);
  const int backward = table[3] || direction == 1;
  __global const T* r = BASE_OF(const T, in1) + direction * table[8];
  const int length = lengths_offset < 0 ? tokens : min(BASE_OF(const int, lengths)[line], tokens);
  // An LSTM's cells are aside; of a GRU the states that are reset.
  for (int j = own; j < size; j += ITEMS) {
    states[0][j] = READ_OR_0(hidden, id * size + j);
    if (CELL == 2) aside[j] = READ_OR_0(first, id * size + j);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int from = 0;
  for (int step = 0; step < tokens; step++) {
    const int t = backward && step < length ? length - 1 - step : step, now = (t * n + id) * size;
    const int gates = ((t * batch + line) * table[4] + direction) * GATES * size;
    if (step >= length) {
      for (int j = own; j < size; j += ITEMS) STORE(BASE_OF(T, out0), now + j, 0.0f);
      continue;
    }
    __local const float* before = states[from];
    __local float* after = states[1 - from];
    if (CELL == 1 && !table[5]) {
      for (int j = own; j < size; j += ITEMS)
        aside[j] = activated(functions, limit, AHEAD(1) + BIAS(1) + OF_STATES(1, before)) * before[j];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int j = own; j < size; j += ITEMS) {
      const float into = AHEAD(0) + BIAS(0) + OF_STATES(0, before);
      float made = 0.0f;
      if (CELL == 0) made = activated(functions, limit, into);
      if (CELL == 1) {
        const float candidate = table[5] ? activated(functions, limit, AHEAD(1) + BIAS(1) + OF_STATES(1, before)) *
                                               (OF_STATES(2, before) + BIAS(2))
                                         : BIAS(2) + OF_STATES(2, aside);
        made = gru_state(functions, limit, into, AHEAD(2) + candidate, before[j]);
      }
      if (CELL == 2) {
        const float4 ahead = (float4)(into, AHEAD(1) + BIAS(1) + OF_STATES(1, before),
                                      AHEAD(2) + BIAS(2) + OF_STATES(2, before), AHEAD(3) + BIAS(3) + OF_STATES(3, before));
        float cell = aside[j];
        made = lstm_state(functions, limit, ahead, POINTER(peephole, peep + j), size, table[6], &cell);
        aside[j] = cell;
      }
      after[j] = made;
      STORE(BASE_OF(T, out0), now + j, made);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    from = 1 - from;
  }
  for (int j = own; j < size; j += ITEMS) {
    STORE(BASE_OF(T, out1), id * size + j, states[from][j]);
    if (CELL == 2 && out2_offset >= 0) STORE(BASE_OF(T, out2), id * size + j, aside[j]);
  }
}
