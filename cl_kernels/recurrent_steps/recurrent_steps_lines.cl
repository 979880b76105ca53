// A recurrent network over sequences whose inputs are multiplied already: RNN, GRU or LSTM, in float or (DOUBLES) double.
//
// ahead [tokens, batch, directions, gates, H], r [directions, gates, H, H], bias of r [directions, gates, H], lengths
// [batch] (int), first hidden states and cells [directions, batch, H], peephole [directions, 3, H]; all but the first two may
// be null. Results: every [tokens, directions, batch, H], zeros beyond a sequence's length, last and cells [directions,
// batch, H]. Scratch [directions, batch, H].
// Grid: one work-item a direction of a sequence, or of all where states are rounded, n of them. table: tokens, batch, H, cell
// (0 RNN, 1 GRU, 2 LSTM), whether the first direction is from the end, directions, linear before reset, coupled, whether an
// LSTM's r multiplies states rounded to 8 bits, the bound (0: none), then for each direction code and
// parameters of its activations; numbers as PARAMETER reads them.
// Error: H * 2^-24 (of doubles 2^-53) * sum |r h| for each gate, and the activations', carried on from token to token; a step
// more where a state that is rounded is that close to the middle of two.
#include "tensor.clh"

#ifdef DOUBLES
  #define REALS(n) double##n
#else
  #define REALS(n) float##n
#endif

// The functions of a direction, and the bound on what they read; that of the cell reads it whole.
#define FUNCTION_INTS (1 + 2 * PARAMETER_INTS)
#define APPLY(i, v) apply(functions + FUNCTION_INTS * (i), limit, v)
static REAL apply(__global const int* f, const REAL limit, const REAL v) {
  const REAL inside = limit > 0 ? (v != v ? v : clamp(v, -limit, limit)) : v;
  return post_apply(f[0], inside, 0, PARAMETER(f + 1, 0), PARAMETER(f + 1, 1));
}

// The product of two rows of n.
static REAL dot_rows(__global const REAL* a, __global const REAL* b, const int n) {
  REALS(16) sum = 0;
  int k = 0;
  for (; k + 16 <= n; k += 16) sum = fma(vload16(0, a + k), vload16(0, b + k), sum);
  const REALS(8) s8 = sum.lo + sum.hi;
  const REALS(4) s4 = s8.lo + s8.hi;
  REAL total = s4.s0 + s4.s1 + s4.s2 + s4.s3;
  for (; k < n; k++) total = fma(a[k], b[k], total);
  return total;
}

// What goes into gate g of unit j.
#define GATE(g) (gates[(g) * size + j] + (bias ? bias[(g) * size + j] : 0))
#define ROW(g, with) dot_rows(r + ((g) * size + j) * size, with, size)

// The states that a token reads: those behind the token before, the first ones in front of all.
typedef struct {
  __global const REAL* every;
  __global const REAL* last;
  __global const int* lengths;
  int tokens, pitch, size, backward;
} walk;

static int length_of(const walk* w, const int line) { return w->lengths ? min(w->lengths[line], w->tokens) : w->tokens; }

static int token_at(const walk* w, const int step, const int length) {
  return w->backward && step < length ? length - 1 - step : step;
}

static __global const REAL* states_before(const walk* w, const int step, const int line) {
  return step == 0 ? w->last + (long)line * w->size
                   : w->every + (long)token_at(w, step - 1, length_of(w, line)) * w->pitch + (long)line * w->size;
}

// Rounds the states of `count` sequences to 256 steps from the least to the greatest of them and 0, as DynamicQuantizeLinear
// does: those that the token before has made, also where it was a sequence's last.
static void round_states(const walk* w, const int step, const int count, __global REAL* to) {
  REAL low = 0, high = 0;
  for (int line = 0; line < count; line++) {
    if (step > length_of(w, line)) continue;
    __global const REAL* from = states_before(w, step, line);
    for (int j = 0; j < w->size; j++) low = fmin(low, from[j]), high = fmax(high, from[j]);
  }
  const REAL width = (high - low) / 255, scale = width == 0 ? 1 : width, zero = rint(clamp(-low / scale, (REAL)0, (REAL)255));
  for (int line = 0; line < count; line++) {
    if (step > length_of(w, line)) continue;
    __global const REAL* from = states_before(w, step, line);
    for (int j = 0; j < w->size; j++)
      to[(long)line * w->size + j] = (clamp(rint(from[j] / scale) + zero, (REAL)0, (REAL)255) - zero) * scale;
  }
}

__kernel void recurrent_steps_lines(const int n, TENSOR(in0), TENSOR(in1), TENSOR(bias), TENSOR(lengths), TENSOR(hidden),
                                    TENSOR(first), TENSOR(peephole), TENSOR(out0), TENSOR(out1), TENSOR(out2),
                                    TENSOR(scratch), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int tokens = table[0], batch = table[1], size = table[2], kind = table[3], rounded = table[8];
  const int lines = rounded ? batch : 1, direction = id * lines / batch, count = kind == 0 ? 1 : kind == 1 ? 3 : 4;
  const REAL limit = PARAMETER(table + 9, 0);
  __global const int* functions = table + 9 + PARAMETER_INTS + direction * FUNCTION_INTS * (kind + 1);
  __global const REAL* r = BASE_OF(const REAL, in1) + (long)direction * count * size * size;
  __global const REAL* bias = bias_offset < 0 ? 0 : BASE_OF(const REAL, bias) + direction * count * size;
  __global const REAL* peep = peephole_offset < 0 ? 0 : BASE_OF(const REAL, peephole) + direction * 3 * size;
  const int line0 = id * lines % batch;
  const long own = ((long)direction * batch + line0) * size;
  __global REAL* last = BASE_OF(REAL, out1) + own;
  __global REAL* cells = out2_offset < 0 ? 0 : BASE_OF(REAL, out2) + own;
  __global REAL* aside = BASE_OF(REAL, scratch) + own;
  __global REAL* every = BASE_OF(REAL, out0) + own;
  for (int j = 0; j < lines * size; j++) {
    last[j] = hidden_offset < 0 ? 0 : BASE_OF(const REAL, hidden)[own + j];
    if (cells) cells[j] = first_offset < 0 ? 0 : BASE_OF(const REAL, first)[own + j];
  }
  const walk w = {every, last, lengths_offset < 0 ? 0 : BASE_OF(const int, lengths) + line0, tokens,
                  table[5] * batch * size, size, table[4] || direction == 1};
  for (int step = 0; step < tokens; step++) {
    if (rounded) round_states(&w, step, lines, aside);
    for (int line = 0; line < lines; line++, aside += size, cells += cells ? size : 0) {
      const int length = length_of(&w, line), t = token_at(&w, step, length);
      __global REAL* now = every + (long)t * w.pitch + (long)line * size;
      __global const REAL* gates = BASE_OF(const REAL, in0) +
                                    (((long)t * batch + line0 + line) * table[5] + direction) * count * size;
      if (step >= length) {
        for (int j = 0; j < size; j++) now[j] = 0;
        continue;
      }
      __global const REAL* before = states_before(&w, step, line);
      __global const REAL* read = rounded ? aside : before;
      if (kind == 1 && !table[6])
        for (int j = 0; j < size; j++) aside[j] = APPLY(0, GATE(1) + ROW(1, before)) * before[j];
      for (int j = 0; j < size; j++) {
        if (kind == 0) {
          now[j] = APPLY(0, GATE(0) + ROW(0, before));
        } else if (kind == 1) {
          const REAL update = APPLY(0, GATE(0) + ROW(0, before));
          const REAL added = bias ? bias[2 * size + j] : 0;
          const REAL mixed = table[6] ? gates[2 * size + j] +
                                             APPLY(0, GATE(1) + ROW(1, before)) * (ROW(2, before) + added)
                                       : GATE(2) + ROW(2, aside);
          now[j] = (1 - update) * APPLY(1, mixed) + update * before[j];
        } else {
          const REAL old = cells[j];
          const REAL in = APPLY(0, GATE(0) + ROW(0, read) + (peep ? peep[j] * old : 0));
          const REAL keep = table[7] ? 1 - in
                                      : APPLY(0, GATE(2) + ROW(2, read) + (peep ? peep[2 * size + j] * old : 0));
          const REAL cell = keep * old + in * APPLY(1, GATE(3) + ROW(3, read));
          const REAL out = APPLY(0, GATE(1) + ROW(1, read) + (peep ? peep[size + j] * cell : 0));
          cells[j] = cell;
          now[j] = out * apply(functions + 2 * FUNCTION_INTS, 0, cell);
        }
      }
    }
    aside -= lines * size;
    if (cells) cells -= lines * size;
  }
  for (int line = 0; line < lines; line++) {
    const int length = length_of(&w, line);
    __global const REAL* from = every + (long)token_at(&w, length - 1, length) * w.pitch + (long)line * size;
    for (int j = 0; length > 0 && j < size; j++) last[(long)line * size + j] = from[j];
  }
}
