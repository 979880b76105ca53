// Determinants of matrices x[..., M, M], by elimination with the greatest element of a column first.
//
// Grid: one work-item a matrix, n of them; RANK counts the axes in front. table: dims, views of y and x, M, pitches of rows and
// columns. scratch0: M * M REALs a matrix. T, LOAD, STORE as in tensor.clh.
// Error: that of M^3 roundings of elements which elimination makes at most 2^(M - 1) times the greatest of x (Wilkinson).
#include "tensor.clh"

__kernel void determinant_ref(const int n, TENSOR(in0), TENSOR(out0), TENSOR(scratch0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int size = rest[0], from = element(x, at);
  __global REAL* a = BASE_OF(REAL, scratch0) + (long)id * size * size;
  REAL made = 1;
  for (int i = 0; i < size * size; i++) {
    a[i] = LOAD(BASE_OF(const T, in0), from + i / size * rest[1] + i % size * rest[2]);
    if (a[i] != a[i]) made = a[i];  // which elimination ends before where a column is zeros
  }
  for (int k = 0; k < size; k++) {
    int pivot = k;
    for (int i = k + 1; i < size; i++)
      if (fabs(a[i * size + k]) > fabs(a[pivot * size + k])) pivot = i;
    const REAL top = a[pivot * size + k];
    made *= pivot == k ? top : -top;
    if (top == 0) break;
    for (int j = k; j < size; j++) {
      const REAL v = a[k * size + j];
      a[k * size + j] = a[pivot * size + j], a[pivot * size + j] = v;
    }
    for (int i = k + 1; i < size; i++) {
      const REAL factor = a[i * size + k] / top;
      for (int j = k + 1; j < size; j++) a[i * size + j] -= factor * a[k * size + j];
    }
  }
  STORE(BASE_OF(T, out0), element(y, at), made);
}
