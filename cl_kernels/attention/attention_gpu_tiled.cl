// y[m] = sum over n of softmax(scale * q[m] k[n] + bias[m][n]) v[n], with post-operations, for GPUs; float or half tensors.
//
// Grid: (16, tiles of 32 queries * 16, batch), groups of 16 x 16. A group goes over the keys once, KEYS at a time (16 or 32,
// default 32), and keeps the running maximum and sum of each query (Milakov and Gimelshein 2018, online softmax). DEPTH
// and WIDTH (multiples of 16, at most 128, default 64) are what local memory has room for. table: dims (batch..., m, e),
// views of y, q (of d = 0), k (of d = n = 0), v (of n = 0) and bias (of n = 0), keys, depth, width, pitches of q and k
// along the depth, of k, v and bias along the keys, whether there is a bias, whether keys lie behind one another in k.
// Error: a score s is off by (depth + 2) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result's by (keys + 10 keys / KEYS) * 2^-24 more, relative to
// sum weight |v|.
#include "tensor.clh"

#ifndef DEPTH
  #define DEPTH 64
#endif
#ifndef WIDTH
  #define WIDTH 64
#endif
#ifndef KEYS
  #define KEYS 32
#endif
#define QUERIES 32

// e^(v - top), 0 for minus infinity even where top is, too.
static float attention_weight(const float v, const float top) {
  return v == -INFINITY ? 0.0f : post_exp(v - top);
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void attention_gpu_tiled(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0), __global const int* table, const float scale,
    POST_PARAMETERS) {
  __local float queries[QUERIES][DEPTH + 1];
  __local float keys[KEYS][DEPTH + 1];
  __local float values[KEYS][WIDTH];
  __local float scores[QUERIES][KEYS + 1];
  __global const int* y = table + RANK;
  __global const int* q = y + VIEW;
  __global const int* k = q + VIEW;
  __global const int* v = k + VIEW;
  __global const int* bias = v + VIEW;
  __global const int* rest = bias + VIEW;
  const int rows = table[RANK - 2], count = rest[0], depth = rest[1], width = rest[2];
  const int tx = get_local_id(0), ty = get_local_id(1), local_id = ty * 16 + tx;
  const int first = get_group_id(1) * QUERIES;
  int at[RANK];
  coordinates(get_global_id(2), table, 0, RANK - 2, at);
  at[RANK - 2] = 0;
  at[RANK - 1] = 0;
  __global const T* query = BASE_OF(const T, in0) + element(q, at);
  __global const T* key = BASE_OF(const T, in1) + element(k, at);
  __global const T* value = BASE_OF(const T, in2) + element(v, at);
  __global const T* added = BASE_OF(const T, in3) + element(bias, at);

  for (int i = local_id; i < QUERIES * DEPTH; i += 256) {
    const int row = i / DEPTH, d = i % DEPTH;
    queries[row][d] = first + row < rows && d < depth ? LOAD(query, (first + row) * q[RANK - 1] + d * rest[3]) : 0.0f;
  }
  float most[2], sums[2], mixed[2][WIDTH / 16];
  for (int i = 0; i < 2; i++) {
    most[i] = -INFINITY;
    sums[i] = 0.0f;
    for (int c = 0; c < WIDTH / 16; c++) mixed[i][c] = 0.0f;
  }
  for (int n0 = 0; n0 < count; n0 += KEYS) {
    for (int i = local_id; i < KEYS * DEPTH; i += 256) {
      const int row = rest[9] ? i % KEYS : i / DEPTH, d = rest[9] ? i / KEYS : i % DEPTH;
      keys[row][d] = n0 + row < count && d < depth ? LOAD(key, (n0 + row) * rest[5] + d * rest[4]) : 0.0f;
    }
    for (int i = local_id; i < KEYS * WIDTH; i += 256) {
      const int row = i / WIDTH, e = i % WIDTH;
      values[row][e] = n0 + row < count && e < width ? LOAD(value, (n0 + row) * rest[6] + e * v[RANK]) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float own[2][KEYS / 16];
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < KEYS / 16; j++) own[i][j] = 0.0f;
    // For gfx9 and gfx11 clang 22 unrolls these loops until 136 bytes are spilled and one wave fits.
    #pragma unroll 2
    for (int d = 0; d < DEPTH; d++)
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < KEYS / 16; j++)
          own[i][j] = fma(queries[ty + 16 * i][d], keys[tx + 16 * j][d], own[i][j]);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < KEYS / 16; j++) {
        const int m = first + ty + 16 * i, n = n0 + tx + 16 * j;
        own[i][j] *= scale;
        if (rest[8] && m < rows && n < count) own[i][j] += LOAD(added, m * bias[RANK - 1] + n * rest[7]);
        own[i][j] = n < count ? own[i][j] : -INFINITY;
        scores[ty + 16 * i][tx + 16 * j] = own[i][j];
      }
    barrier(CLK_LOCAL_MEM_FENCE);
    float top[2];
    for (int i = 0; i < 2; i++) {
      top[i] = most[i];
      for (int n = 0; n < KEYS; n++) {
        const float s = scores[ty + 16 * i][n];
        top[i] = s > top[i] || s != s ? s : top[i];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < KEYS / 16; j++)
        scores[ty + 16 * i][tx + 16 * j] = attention_weight(own[i][j], top[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 2; i++) {
      const float factor = attention_weight(most[i], top[i]);
      most[i] = top[i];
      sums[i] *= factor;
      for (int c = 0; c < WIDTH / 16; c++) mixed[i][c] *= factor;
    }
    #pragma unroll 2
    for (int n = 0; n < KEYS; n++)
      for (int i = 0; i < 2; i++) {
        const float weight = scores[ty + 16 * i][n];
        sums[i] += weight;
        for (int c = 0; c < WIDTH / 16; c++) mixed[i][c] = fma(weight, values[n][tx + 16 * c], mixed[i][c]);
      }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 2; i++)
    for (int c = 0; c < WIDTH / 16; c++) {
      at[RANK - 2] = first + ty + 16 * i;
      at[RANK - 1] = tx + 16 * c;
      if (at[RANK - 2] < rows && at[RANK - 1] < width)
        STORE(BASE_OF(T, out0), element(y, at), POST_ALL(mixed[i][c] / sums[i], at));
    }
}
