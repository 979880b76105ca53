// y[m] = sum over n of softmax(scale * q[m] k[n] + bias[m][n]) v[n], with post-operations, on tensors of floats.
//
// Grid: one work-item a row of y, n of them. The axes of the rows are counted first, `kept` of them, then the one of the
// row. table: dims, views of y, q (of d = 0), k (of d = n = 0), v (of n = 0) and bias (of n = 0), kept, keys, depth, width,
// pitches of q and k along the depth, of k, v and bias along the keys, whether there is a bias, scale.
// Error: a score s is off by (depth + 2) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result's by keys * 2^-24 more, relative to sum weight |v|.
#include "tensor.clh"

static REAL attention_score(__global const T* q, __global const T* k, const int depth, const int q_pitch, const int k_pitch) {
  REAL sum = 0.0f;
  for (int d = 0; d < depth; d++) sum = fma(LOAD(q, d * q_pitch), LOAD(k, d * k_pitch), sum);
  return sum;
}

__kernel void attention_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0),
                            __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  __global const int* y = table + RANK;
  __global const int* q = y + VIEW;
  __global const int* k = q + VIEW;
  __global const int* v = k + VIEW;
  __global const int* bias = v + VIEW;
  __global const int* rest = bias + VIEW;
  const REAL scale = PARAMETER(rest + 10, 0);
  const int kept = rest[0], keys = rest[1], depth = rest[2], width = rest[3];
  coordinates(id, table, 0, kept, at);
  coordinates(0, table, kept, RANK, at);
  __global const T* query = BASE_OF(const T, in0) + element(q, at);
  __global const T* key = BASE_OF(const T, in1) + element(k, at);
  const int first_bias = element(bias, at);
  REAL most = -INFINITY;
  for (int i = 0; i < keys; i++) {
    const REAL s = scale * attention_score(query, key + i * rest[6], depth, rest[4], rest[5]);
    const REAL shifted = rest[9] ? s + LOAD(BASE_OF(const T, in3), first_bias + i * rest[8]) : s;
    most = shifted > most || shifted != shifted ? shifted : most;
  }
  for (int e = 0; e < width; e += 16) {
    const int present = min(16, width - e);
    REAL sum = 0.0f, mixed[16];
    for (int j = 0; j < 16; j++) mixed[j] = 0.0f;
    for (int i = 0; i < keys; i++) {
      const REAL s = scale * attention_score(query, key + i * rest[6], depth, rest[4], rest[5]);
      const REAL weight = post_exp((rest[9] ? s + LOAD(BASE_OF(const T, in3), first_bias + i * rest[8]) : s) - most);
      sum += weight;
      for (int j = 0; j < present; j++) {
        coordinates(e + j, table, kept, RANK, at);
        mixed[j] = fma(weight, LOAD(BASE_OF(const T, in2), element(v, at) + i * rest[7]), mixed[j]);
      }
    }
    for (int j = 0; j < present; j++) {
      coordinates(e + j, table, kept, RANK, at);
      STORE(BASE_OF(T, out0), element(y, at), POST_ALL(mixed[j] / sum, at));
    }
  }
}
