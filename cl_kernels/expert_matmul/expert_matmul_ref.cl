// Product of each row with the matrix of its expert, with post-operations, on tensors of floats.
//
// y[m, n] = sum over k of a[m, k] w[expert[m], k, n]; a number outside of w means its nearest end. Grid: one work-item an
// element of y, n of them.
// table: dims of y, views of y, a (of k = 0), w (of expert and k 0) and the experts' numbers, then k, pitches of a and w along
// k, pitch of w from one expert to the next, experts.
// Error: (min(k, SUMMED) + k / SUMMED) 2^-24 sum |a w|, accumulated in float, SUMMED products at a time, plus the
// post-operations'.
#include "tensor.clh"
#define SUMMED 1024
#ifndef INDEX
  #define INDEX long
#endif

__kernel void expert_matmul_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* w = a + VIEW;
  __global const int* numbers = w + VIEW;
  __global const int* rest = numbers + VIEW;
  const long number = BASE_OF(const INDEX, in2)[element(numbers, at)];
  const int expert = (int)clamp(number, 0L, (long)rest[4] - 1);
  __global const T* row = BASE_OF(const T, in0) + element(a, at);
  __global const T* column = BASE_OF(const T, in1) + element(w, at) + expert * rest[3];
  REAL sum = 0.0f;
  for (int done = 0; done < rest[0]; done += SUMMED) {
    const int end = min(done + SUMMED, rest[0]);
    REAL part = 0.0f;
    for (int k = done; k < end; k++) part = fma(LOAD(row, k * rest[1]), LOAD(column, k * rest[2]), part);
    sum += part;
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}
