"""Amazon EFS and FSx for Lustre: moto's stores and answers, stricter where AWS is, and folders that hosts mount."""
