// Linear attention, token by token: S = exp(decay) S + k u with u = v, or beta (v - k exp(decay) S); y = scale q S.
// q[batch][tokens][queries * K], k[batch][tokens][keys * K], v[batch][tokens][values * V], S[batch][values][K][V].
//
// Grid: one work-item a column of S, n of them. table: tokens, K, V; heads of y, of queries, of keys, of values; whether u is
// beta (v - ...), whether there are a first S, a decay and a beta, whether the decay has a number a row of S, whether beta has
// one a head, scale (float); origin and four pitches of q, k, v, the first S, decay, beta, y and the last S, those of three
// axes behind a zero. scratch0: S in floats. T, LOAD, STORE as in tensor.clh; S, LOAD_S, STORE_S of states, likewise.
// Error: K + 8 roundings a token of what the sizes of all numbers make of S, K + 2 of those of y.
#define RANK 1
#include "tensor.clh"
#ifndef S
  #define S float
  #define LOAD_S(p, i) ((p)[i])
  #define STORE_S(p, i, v) ((p)[i] = (v))
#endif

static long at3(__global const int* view, const int batch, const int token, const int feature) {
  return view[0] + (long)batch * view[2] + (long)token * view[3] + (long)feature * view[4];
}

static long at4(__global const int* view, const int batch, const int head, const int row, const int column) {
  return view[0] + (long)batch * view[1] + (long)head * view[2] + (long)row * view[3] + (long)column * view[4];
}

__kernel void linear_attention_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(in5),
                                   TENSOR(out0), TENSOR(out1), TENSOR(scratch0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  const int tokens = table[0], size = table[1], width = table[2], heads = table[3], values = table[6];
  const int column = id % width, head = id / width % values, batch = id / width / values;
  const int delta = table[7], decays = table[9], betas = table[10], by_row = table[11], by_head = table[12];
  const float scale = as_float(table[13]);
  __global const int* views = table + 14;
  const int key = head / (values / table[5]), several = heads / values;
  __global float* s = BASE_OF(float, scratch0) + (long)(batch * values + head) * size * width + column;
  for (int i = 0; i < size; i++)
    s[i * width] = table[8] ? LOAD_S(BASE_OF(const S, in3), at4(views + 15, batch, head, i, column)) : 0.0f;
  for (int t = 0; t < tokens; t++) {
    __global const T* k = BASE_OF(const T, in1) + at3(views + 5, batch, t, key * size);
    __global const T* g = BASE_OF(const T, in4) + at3(views + 20, batch, t, by_row ? head * size : head);
    const int next_k = views[9], next_g = by_row ? views[24] : 0;
    float u = LOAD(BASE_OF(const T, in2), at3(views + 10, batch, t, head * width + column)), read = 0.0f;
    float all = decays && !by_row ? exp(LOAD(g, 0)) : 1.0f;
    for (int i = 0; i < size; i++) {
      const float kept = s[i * width] * (by_row ? exp(LOAD(g, i * next_g)) : all);
      s[i * width] = kept;
      read += LOAD(k, i * next_k) * kept;
    }
    if (delta) u = (u - read) * (betas ? LOAD(BASE_OF(const T, in5), at3(views + 25, batch, t, by_head ? head : 0)) : 1.0f);
    for (int i = 0; i < size; i++) s[i * width] += LOAD(k, i * next_k) * u;
    for (int j = 0; j < several; j++) {
      const int to = head * several + j;
      __global const T* q = BASE_OF(const T, in0) + at3(views, batch, t, to / (heads / table[4]) * size);
      float sum = 0.0f;
      for (int i = 0; i < size; i++) sum += LOAD(q, i * views[4]) * s[i * width];
      STORE(BASE_OF(T, out0), at3(views + 30, batch, t, to * width + column), sum * scale);
    }
  }
  for (int i = 0; i < size; i++) STORE_S(BASE_OF(S, out1), at4(views + 35, batch, head, i, column), s[i * width]);
}
